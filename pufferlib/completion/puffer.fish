# TAB completes `puffer` in fish. Keep this where fish looks for it:
#     puffer completion fish > ~/.config/fish/completions/puffer.fish

function __puffer_words
    set -l program (commandline -opc)[1]
    set -l words ($program --complete (commandline -cp | string collect) 2>/dev/null)
    if test (count $words) -eq 0
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $words
    end
end

complete -c puffer -f -a '(__puffer_words)'
