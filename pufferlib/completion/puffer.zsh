#compdef puffer
# TAB completes `puffer` in zsh. Either have every new shell load this, by a line in ~/.zshrc, after that of compinit:
#     eval "$(puffer completion zsh)"
# or keep it in a folder of $fpath:
#     puffer completion zsh > ~/.zfunc/_puffer

_puffer() {
    local line="${LBUFFER##*[;|&]}" program="${words[1]/#\~/$HOME}" word meaning
    local -a whole parts whole_meanings
    while IFS=$'\t' read -r word meaning; do
        if [[ $word == *[.=] ]]; then
            parts+=("$word") # more follows after these two: no space
        else
            whole+=("$word")
            whole_meanings+=("${word}${meaning:+  -- $meaning}")
        fi
    done < <("$program" --complete "$line" 2>/dev/null)
    if (( ! $#whole && ! $#parts )); then
        compset -P '*='
        _files
        return
    fi
    (( $#parts )) && compadd -S '' -- "${parts[@]}"
    (( $#whole )) && compadd -l -d whole_meanings -- "${whole[@]}"
}

if [[ $funcstack[1] == _puffer ]]; then
    _puffer "$@" # a file of $fpath is its function's body when it is called first
else
    compdef _puffer puffer
fi
