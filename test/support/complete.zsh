# Types the given lines into an interactive zsh that has read ./_svc (sourced, or from $fpath when FROM_FPATH is set),
# presses the tab key after each, and prints what was offered: a line of words with | between them.
zmodload zsh/zpty
directory="${0:A:h}"
zpty shell zsh -f -i
zpty -w shell "SETUP=$directory/completing.zsh; source \$SETUP"
zpty -r shell said '*READY-TO-COMPLETE*'
for line in "$@"; do
  zpty -w -n shell "$line"$'\t'
  zpty -r shell said '*OFFERED<*>OFFERED*'
  said="${said##*OFFERED<}"
  print -r -- "${said%%>OFFERED*}"
  zpty -w -n shell $'\C-u'
done
zpty -d shell
