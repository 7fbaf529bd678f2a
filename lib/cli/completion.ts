import type { OptionRow } from './args.js'
import type { Command } from './command.js'
import { shownFlag } from './help.js'

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

/** What completion knows of a command: the rows that the parser and the help read. */
export interface CompletionRow {
  /** As it is typed; two words where it belongs to a group. */
  name: string
  summary: string
  command: Pick<Command, 'options' | 'operands'> | null
}

/** The completion script of a shell, made from the tables of the commands. */
export function renderCompletion(shell: Shell, rows: readonly CompletionRow[]): string {
  const commands = rows.map(({ name, summary, command }) => ({ name, summary, flags: flagsOf(command) }))
  return { bash: renderBash, zsh: renderZsh, fish: renderFish }[shell](commands)
}

interface Flag {
  /** `--token`. */
  long: string
  /** `-m`, or none. */
  short: string | null
  takesValue: boolean
  choices: readonly string[]
  help: string
}

interface CompletedCommand {
  name: string
  summary: string
  flags: Flag[]
}

const helpFlag: Flag = { long: '--help', short: '-h', takesValue: false, choices: [], help: 'the options and an example' }

function flagsOf(command: CompletionRow['command']): Flag[] {
  const flags = Object.entries(command?.options ?? {}).map(([flag, row]: [string, OptionRow]) => ({
    long: shownFlag(flag, row),
    short: row.alias === undefined ? null : `-${row.alias}`,
    takesValue: row.type !== 'switch',
    choices: row.choices ?? [],
    help: row.help
  }))
  return [...flags, helpFlag]
}

/** `a|b)`: the words of one command as a pattern of `case`; colons and spaces are quoted. */
function quoted(words: readonly string[]): string {
  return words.map(word => `'${word.replaceAll("'", "'\\''")}'`).join('|')
}

/** A command of two words is looked up by both. Bash cuts words at colons: `config:set` is put together again. */
function renderBash(commands: readonly CompletedCommand[]): string {
  const singles = commands.map(({ name }) => name.split(' ')[0] as string)
  const groups = new Map<string, string[]>()
  for (const { name } of commands) {
    const [first = '', second] = name.split(' ')
    if (second !== undefined) groups.set(first, [...(groups.get(first) ?? []), second])
  }
  const cases = commands.map(({ name, flags }) => {
    const words = flags.flatMap(({ long, short }) => (short === null ? [long] : [long, short]))
    return `    ${quoted([name])}) flags='${words.join(' ')}' ;;`
  })
  const values = commands.flatMap(({ name, flags }) => flags.filter(({ takesValue }) => takesValue).map(flag => {
    const names = [flag.long, ...(flag.short === null ? [] : [flag.short])].map(word => `${name} ${word}`)
    return `    ${quoted(names)}) values='${flag.choices.join(' ')}'; takes=1 ;;`
  }))
  return `# bash completion of svc: eval "$(svc completion bash)", or a file in /etc/bash_completion.d
_svc() {
  local line="\${COMP_LINE:0:COMP_POINT}" current='' previous command flags='' values='' takes=''
  local -a words
  read -ra words <<< "$line"
  if [[ "$line" != *[[:space:]] ]]; then
    current="\${words[\${#words[@]}-1]}"
    unset "words[\${#words[@]}-1]"
  fi
  COMPREPLY=()
  previous="\${words[\${#words[@]}-1]}"
  command="\${words[1]}"
  if (( \${#words[@]} == 1 )); then
    COMPREPLY=($(compgen -W '${[...new Set(singles)].join(' ')} --help --version' -- "$current"))
    _svc_after_colon "$current"
    return
  fi
  case "$command" in
${[...groups].map(([first, seconds]) => `    ${quoted([first])})
      if (( \${#words[@]} == 2 )); then COMPREPLY=($(compgen -W '${seconds.join(' ')}' -- "$current")); return; fi
      command="$command \${words[2]}" ;;`).join('\n')}
    'help')
      COMPREPLY=($(compgen -W '${[...new Set(singles)].join(' ')}' -- "$current"))
      _svc_after_colon "$current"
      return ;;
  esac
  case "$command $previous" in
${values.join('\n')}
  esac
  if [[ -n "$takes" ]]; then
    if [[ -n "$values" ]]; then COMPREPLY=($(compgen -W "$values" -- "$current")); else COMPREPLY=($(compgen -f -- "$current")); fi
    return
  fi
  case "$command" in
${cases.join('\n')}
  esac
  if [[ "$current" == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$current")); else COMPREPLY=($(compgen -f -- "$current")); fi
}
_svc_after_colon() {
  if [[ "$1" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then COMPREPLY=("\${COMPREPLY[@]#"\${1%:*}:"}"); fi
}
complete -o filenames -F _svc svc
`
}

/** Text of a zsh spec: brackets and colons have a meaning there. */
function zshText(text: string): string {
  return text.replace(/[\\[\]:]/g, '\\$&').replaceAll("'", "'\\''")
}

function renderZsh(commands: readonly CompletedCommand[]): string {
  const named = commands.map(({ name, summary }) => `    '${zshText(name)}:${zshText(summary)}'`)
  const cases = commands.map(({ name, flags }) => {
    const specs = flags.map(({ long, short, takesValue, choices, help }) => {
      const value = !takesValue ? '' : choices.length > 0 ? `:value:(${choices.join(' ')})` : ':value:_files'
      const names = short === null ? `'${long}` : `'(${long} ${short})'{${long},${short}}'`
      return `${names}[${zshText(help)}]${value}'`
    })
    return `    ${quoted([name])}) _arguments -s ${specs.join(' ')} '*:file:_files' ;;`
  })
  const groups = [...new Set(commands.map(({ name }) => name.split(' ')).filter(words => words.length > 1).map(([first]) => first as string))]
  return `#compdef svc
# zsh completion of svc: svc completion zsh > a file _svc in a directory of $fpath, or source <(svc completion zsh)
_svc() {
  local -a commands
  commands=(
${named.join('\n')}
  )
  if (( CURRENT == 2 )); then _describe 'command' commands; return; fi
  local command="$words[2]"
  if [[ "$command" == (${groups.join('|')}) && CURRENT -gt 3 ]]; then
    command="$command $words[3]"
    shift words; (( CURRENT-- ))
  fi
  shift words; (( CURRENT-- ))
  case "$command" in
${cases.join('\n')}
    *) _files ;;
  esac
}
if [[ "$funcstack[1]" == _svc ]]; then _svc "$@"; else compdef _svc svc; fi
`
}

function fishText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

function renderFish(commands: readonly CompletedCommand[]): string {
  const lines = ['# fish completion of svc: svc completion fish > ~/.config/fish/completions/svc.fish', 'complete -c svc -f']
  for (const { name, summary, flags } of commands) {
    const [first = '', second] = name.split(' ')
    lines.push(`complete -c svc -n __fish_use_subcommand -a ${fishText(first)} -d ${fishText(summary)}`)
    if (second !== undefined) {
      lines.push(`complete -c svc -n '__fish_seen_subcommand_from ${first}' -a ${fishText(second)} -d ${fishText(summary)}`)
    }
    for (const { long, short, takesValue, choices, help } of flags) {
      const letter = short === null ? '' : ` -s ${short.slice(1)}`
      const value = !takesValue ? '' : choices.length > 0 ? ` -x -a ${fishText(choices.join(' '))}` : ' -r -F'
      lines.push(`complete -c svc -n '__fish_seen_subcommand_from ${second ?? first}' -l ${long.slice(2)}${letter}${value} -d ${fishText(help)}`)
    }
  }
  return `${lines.join('\n')}\n`
}
