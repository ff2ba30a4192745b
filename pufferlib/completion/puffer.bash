# TAB completes `puffer` in bash. Either have every new shell load this, by a line in ~/.bashrc:
#     eval "$(puffer completion bash)"
# or, where the package bash-completion is installed, keep it where that looks for it:
#     puffer completion bash > ~/.local/share/bash-completion/completions/puffer

_puffer() {
    local line="${COMP_LINE:0:COMP_POINT}" program="${COMP_WORDS[0]/#\~/$HOME}" word end meaning
    local current="${line##*[[:space:]]}"
    # What bash replaces begins after the last = or : of the word, as far as these part words for it.
    end="$current"
    [[ "$COMP_WORDBREAKS" == *=* ]] && end="${end##*=}"
    [[ "$COMP_WORDBREAKS" == *:* ]] && end="${end##*:}"
    local before="${current%"$end"}"
    COMPREPLY=()
    while IFS=$'\t' read -r word meaning; do
        # Quoted, as a run's folder may be called $(like this), which the next press of Enter would run.
        printf -v word '%q' "${word#"$before"}"
        COMPREPLY+=("$word")
    done < <("$program" --complete "$line" 2>/dev/null)
    # More follows after these two: no space.
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[.=] ]] && compopt -o nospace
    return 0
}

complete -o bashdefault -o default -F _puffer puffer
