# Makes an interactive zsh tell what its completion offers: every match goes through compadd.
PROMPT=
autoload -Uz compinit
if [[ -n "$FROM_FPATH" ]]; then fpath=("$PWD" $fpath); compinit -u -D; else compinit -u -D; source ./_svc; fi
bindkey '^I' complete-word
bindkey '^U' kill-whole-line
zstyle ':completion:*' insert-tab false
typeset -ga offered
compadd() {
  # A call that only computes (-O, -A, -D) offers nothing.
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a matches
  builtin compadd -A matches "$@"
  offered+=($matches)
  builtin compadd "$@"
}
# Each is forgotten after one completion.
forget() { offered=(); compprefuncs=(forget) }
tell() { print -r -- "OFFERED<${(j:|:)${(@u)offered}}>OFFERED"; comppostfuncs=(tell) }
compprefuncs=(forget)
comppostfuncs=(tell)
print READY-TO-''COMPLETE
