import { listDeployments } from '../client/runs.js'
import { whoami } from '../client/named-project.js'
import { oneLine } from '../../base/text.js'
import { listEnvironments, maySend, plainEnvironment } from '../../base/config/client-config.js'
import type { EffectiveConfig, SourcedToken } from '../../base/config/precedence.js'
import { type Client, createClient } from '../client/client.js'
import { loadConfiguration } from '../client/session.js'
import {
  type Command,
  type CompletedValues,
  type Context,
  defineCommand,
  exitCodes,
  type Family,
  type OperandRow,
  type OptionRow,
  usage,
  shownFlag
} from '../command.js'
import { labelWords } from '../fleet-view.js'
import { plainText } from '../terminal/terminal-text.js'

/** Time limit for the answer: the user waits at the prompt meanwhile. */
const limitMs = 2000
const maxDeployments = 30

type Value = readonly [value: string, description: string]

/** The kinds of values that a completion script asks svc for. */
const completedValues = [
  'environments',
  'deployments',
  'projects',
  'nodes',
  'rollouts'
] as const satisfies readonly CompletedValues[]

/** Shells that svc writes completion scripts for. */
export const shells = ['bash', 'zsh', 'fish'] as const
/** Name of a shell. */
type Shell = (typeof shells)[number]

/** The commands for shell completion. */
export const commands = {
  completion: defineCommand({
    operands: { shell: { required: true, help: shells.join(', ') } },
    details:
      'bash: add eval "$(svc completion bash)" to ~/.bashrc.\n\n' +
      'zsh: add source <(svc completion zsh) to ~/.zshrc, after compinit.\n\n' +
      'fish: run svc completion fish > ~/.config/fish/completions/svc.fish\n\n' +
      'Completion also offers environments, deployments and projects. It asks the server for them, and offers none\n' +
      'if the server does not answer within two seconds.',
    examples: [['completion bash', 'print the completion script for bash']],
    async run({ operands }, { output, commands }) {
      const shell = shells.find(name => name === operands.shell)
      if (shell === undefined)
        throw usage(operands.shell, `Unknown shell "${operands.shell}": choose one of ${shells.join(', ')}`)
      const shown = commands.filter(({ hidden }) => hidden !== true)
      const rows = await Promise.all(
        shown.map(async ({ name, aliases, summary, now, load }) => {
          return { name, aliases, summary, now, command: name === 'help' ? null : await load() }
        })
      )
      await output.write(renderCompletion(shell, rows))
    }
  }),

  values: defineCommand({
    operands: {
      kind: { required: true, help: completedValues.join(', ') },
      line: { help: 'the command line so far; its --env and --server apply' }
    },
    examples: [['values deployments "svc logs "', 'print the deployments that "svc logs" can show']],
    async run({ operands }, context) {
      const kind = completedValues.find(name => name === operands.kind)
      if (kind === undefined)
        throw usage(operands.kind, `Unknown kind "${operands.kind}": choose one of ${completedValues.join(', ')}`)
      const signal = AbortSignal.timeout(limitMs)
      const late = new Promise<Value[]>(resolve => signal.addEventListener('abort', () => resolve([])))
      const found = await Promise.race([
        valuesOf(kind, operands.line ?? '', { ...context, signal }).catch(() => []),
        late
      ])
      // A shell expands the values that it gets and prints the descriptions, so both must be harmless.
      const safe = found.filter(([value]) => /^[\w.-]+$/.test(value))
      await context.output.write(
        safe.map(([value, description]) => `${value}\t${plainText(oneLine(description))}\n`).join('')
      )
      // A pending DNS lookup would keep the process running.
      context.host.exit(exitCodes.success)
    }
  })
} satisfies Family

interface Asking extends Context {
  signal: AbortSignal
}

async function valuesOf(kind: CompletedValues, line: string, context: Asking): Promise<Value[]> {
  if (kind === 'environments') {
    const names = await listEnvironments(context.cwd)
    return names.map(name => [name ?? plainEnvironment, name === null ? 'svc.config.json' : `svc.config.${name}.json`])
  }
  const quiet = { ...context.output, warn: () => {} }
  const flags = { server: optionOf(line, '--server'), project: optionOf(line, '--project') }
  const request = { flags, env: optionOf(line, '--env') ?? optionOf(line, '-e'), project: 'optional' } as const
  const { config } = await loadConfiguration({ ...context, output: quiet }, request)
  for (const token of [config.adminToken, config.deployToken]) {
    const client = token === null ? null : openQuietly(token, config, context)
    if (client !== null) return await values[kind](client, config, context)
  }
  return []
}

type Values = (client: Client, config: EffectiveConfig, context: Asking) => Promise<Value[]>

/** Returns the values of each kind that the server knows. */
const values: Readonly<Record<Exclude<CompletedValues, 'environments'>, Values>> = {
  projects: (client, _config, context) => projects(client, context),
  deployments,
  async nodes(client) {
    const { nodes: found } = await client.call('GET /api/nodes', { query: {} })
    return found.map(({ name, labels }) => [name, labelWords(labels)])
  },
  async rollouts(client, { projectId }) {
    const { rollouts: found } = await client.call('GET /api/rollouts', {
      query: { projectId: projectId?.value, limit: maxDeployments }
    })
    return found.map(({ id, projectName, state }) => [id, `${projectName}, ${state}`])
  }
}

/**
 * Opens the API without asking, or returns null. Completion runs before the user confirms a command, so the files of a
 * checkout must not choose who receives a token: it goes to its own server only.
 */
function openQuietly(token: SourcedToken, { serverUrl }: EffectiveConfig, { env }: Asking): Client | null {
  if (serverUrl === null || !maySend(token, serverUrl.value)) return null
  const isOfCheckout = serverUrl.source === 'project' || serverUrl.source === '.env.local'
  if (token.origin === null && isOfCheckout && token.source !== '.env.local') return null
  return createClient({ serverUrl: serverUrl.value, token, env })
}

async function projects(client: Client, { signal }: Asking): Promise<Value[]> {
  const holder = await whoami(client, { signal })
  const found = holder?.project ? [holder.project] : await client.call('GET /api/projects', { signal })
  return found.map(({ id, name }) => [id, name])
}

async function deployments(client: Client, { projectId }: EffectiveConfig, { signal }: Asking): Promise<Value[]> {
  const found = await listDeployments(client, {
    projectId: projectId?.value,
    limit: maxDeployments,
    output: 'none',
    signal
  })
  return found.map(({ id, projectName, status, message }) => [
    id,
    `${projectName}, ${status}${message === null ? '' : `: ${message}`}`
  ])
}

/** Returns the value of an option in an incomplete line. Ignores quoting, which ids and addresses do not need. */
function optionOf(line: string, flag: string): string | undefined {
  const words = line.split(/\s+/)
  const at = words.findIndex(word => word === flag || word.startsWith(`${flag}=`))
  const found = words[at]?.startsWith(`${flag}=`) ? words[at]?.slice(flag.length + 1) : words[at + 1]
  return at === -1 || !found || found.startsWith('-') ? undefined : found
}

/** A command as completion needs it, with the same tables that the parser and the help use. */
export interface CompletionRow {
  /** The words that a user types: two if the command belongs to a group. */
  name: string
  aliases?: readonly string[] | undefined
  summary: string
  /** The newer command that does the same: its options are completed, and its name is not offered. */
  now?: string | undefined
  command: Pick<Command, 'options' | 'operands'> | null
}

/** Returns the completion script of a shell, generated from the tables of the commands. */
export function renderCompletion(shell: Shell, rows: readonly CompletionRow[]): string {
  const commands = rows.flatMap(({ name, aliases = [], summary, now, command }) => {
    const operands: OperandRow[] = Object.values(command?.operands ?? {})
    const described = {
      summary,
      isOffered: now === undefined,
      flags: flagsOf(command),
      takesOperands: operands.length > 0,
      operandValues: operands[0]?.complete ?? null
    }
    return [name, ...aliases].map(typed => ({ name: typed, ...described }))
  })
  return { bash: renderBash, zsh: renderZsh, fish: renderFish }[shell](commands)
}

interface Flag {
  /** Long form, as `--token`. */
  long: string
  /** Short form, as `-m`; null if there is none. */
  short: string | null
  takesValue: boolean
  choices: readonly string[]
  /** Kind of values to ask svc for; null completes file names. */
  asked: CompletedValues | null
  help: string
}

interface CompletedCommand {
  name: string
  summary: string
  isOffered: boolean
  flags: Flag[]
  takesOperands: boolean
  /** Kind of values of the first operand; null completes file names. */
  operandValues: CompletedValues | null
}

const helpFlag: Flag = {
  long: '--help',
  short: '-h',
  takesValue: false,
  choices: [],
  asked: null,
  help: 'show the options and an example'
}

function flagsOf(command: CompletionRow['command']): Flag[] {
  const flags = Object.entries(command?.options ?? {}).map(([flag, row]: [string, OptionRow]) => ({
    long: shownFlag(flag, row),
    short: row.alias === undefined ? null : `-${row.alias}`,
    takesValue: row.type !== 'switch',
    choices: row.choices ?? [],
    asked: row.complete ?? null,
    help: row.help
  }))
  return [...flags, helpFlag]
}

/** Returns words as a pattern of `case`, without the closing parenthesis. Colons and spaces are quoted. */
function quoted(words: readonly string[]): string {
  return words.map(word => `'${word.replaceAll("'", "'\\''")}'`).join('|')
}

/** Returns the possible first words. A group appears once, with the summary of its first command. */
function firstWords(commands: readonly CompletedCommand[]): Array<[word: string, summary: string]> {
  const words = new Map<string, string>()
  for (const { name, summary, isOffered } of commands) {
    const first = name.split(' ')[0] as string
    if (isOffered && !words.has(first)) words.set(first, summary)
  }
  return [...words]
}

/** The words that can follow some words: those of `logs` are `sources`, those of `logs sources` are its commands. */
interface Group {
  /** Whether the words are a command themselves, too. */
  isCommand: boolean
  next: Array<[word: string, summary: string]>
}

/** Returns the groups by their words. */
function groupsOf(commands: readonly CompletedCommand[]): Map<string, Group> {
  const groups = new Map<string, Group>()
  for (const { name, summary } of commands) {
    const words = name.split(' ')
    for (let count = 1; count < words.length; count++) {
      const typed = words.slice(0, count).join(' ')
      const group = groups.get(typed) ?? { isCommand: commands.some(each => each.name === typed), next: [] }
      const word = words[count] as string
      if (!group.next.some(([known]) => known === word)) group.next.push([word, summary])
      groups.set(typed, group)
    }
  }
  return groups
}

/**
 * Renders the script for bash. It looks up a command of several words by all of them. Bash splits `config:set` at the colon,
 * so the script joins it again.
 */
function renderBash(commands: readonly CompletedCommand[]): string {
  const singles = firstWords(commands)
    .map(([word]) => word)
    .join(' ')
  const cases = commands.map(({ name, flags }) => {
    const words = flags.flatMap(({ long, short }) => (short === null ? [long] : [long, short]))
    return `    ${quoted([name])}) flags='${words.join(' ')}' ;;`
  })
  const values = commands.flatMap(({ name, flags }) =>
    flags
      .filter(({ takesValue }) => takesValue)
      .map(flag => {
        const names = [flag.long, ...(flag.short === null ? [] : [flag.short])].map(word => `${name} ${word}`)
        return `    ${quoted(names)}) values='${flag.choices.join(' ')}'; asked='${flag.asked ?? ''}'; takes=1 ;;`
      })
  )
  const operands = commands.flatMap(({ name, operandValues }) =>
    operandValues === null ? [] : [`    ${quoted([name])}) asked='${operandValues}' ;;`]
  )
  return `# bash completion of svc: eval "$(svc completion bash)", or a file in /etc/bash_completion.d
_svc() {
  local line="\${COMP_LINE:0:COMP_POINT}" current='' previous command flags='' values='' takes='' asked='' next='' isCommand=''
  local -i at=1
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
    COMPREPLY=($(compgen -W '${singles} --help --version' -- "$current"))
    _svc_after_colon "$current"
    return
  fi
  if [[ "$command" == help ]]; then
    COMPREPLY=($(compgen -W '${singles}' -- "$current"))
    _svc_after_colon "$current"
    return
  fi
  while true; do
    next='' isCommand=''
    case "$command" in
${[...groupsOf(commands)].map(bashGroup).join('\n')}
    esac
    at+=1
    if (( at == \${#words[@]} )) || [[ " $next " != *" \${words[at]} "* ]]; then break; fi
    command="$command \${words[at]}"
  done
  if (( at < \${#words[@]} )); then next=''; fi
  if [[ -n "$next" && -z "$isCommand" ]]; then COMPREPLY=($(compgen -W "$next" -- "$current")); return; fi
  case "$command $previous" in
${values.join('\n')}
  esac
  if [[ -n "$takes" ]]; then
    if [[ -n "$asked" ]]; then COMPREPLY=($(compgen -W "$(_svc_ask "\${words[0]}" "$asked" "$line")" -- "$current"))
    elif [[ -n "$values" ]]; then COMPREPLY=($(compgen -W "$values" -- "$current")); else COMPREPLY=($(compgen -f -- "$current")); fi
    return
  fi
  case "$command" in
${cases.join('\n')}
  esac
  if [[ "$current" == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$current")); return; fi
  case "$command" in
${operands.join('\n') || "    '') ;;"}
  esac
  if [[ -n "$asked" ]]; then COMPREPLY=($(compgen -W "$next $(_svc_ask "\${words[0]}" "$asked" "$line")" -- "$current"))
  else COMPREPLY=($(compgen -W "$next" -- "$current") $(compgen -f -- "$current")); fi
}
# Asks svc for values; svc answers within two seconds.
_svc_ask() {
  local value description
  "$1" values "$2" "$3" 2>/dev/null </dev/null | while IFS=$'\\t' read -r value description; do printf '%s\\n' "$value"; done
}
_svc_after_colon() {
  if [[ "$1" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then COMPREPLY=("\${COMPREPLY[@]#"\${1%:*}:"}"); fi
}
complete -o filenames -F _svc svc
`
}

function bashGroup([typed, { isCommand, next }]: [string, Group]): string {
  const words = next.map(([word]) => word).join(' ')
  return `      ${quoted([typed])}) next='${words}'${isCommand ? ' isCommand=1' : ''} ;;`
}

/** Escapes text for a zsh spec, in which brackets and colons are special. */
function zshText(text: string): string {
  return text.replace(/[\\[\]:]/g, '\\$&').replaceAll("'", "'\\''")
}

function renderZsh(commands: readonly CompletedCommand[]): string {
  const groups = groupsOf(commands)
  const describe = (words: Array<[word: string, summary: string]>): string =>
    words.map(([word, summary]) => `'${zshText(word)}:${zshText(summary)}'`).join(' ')
  const cases = commands.map(({ name, flags, operandValues }) => {
    const specs = flags.map(({ long, short, takesValue, choices, asked, help }) => {
      const value = !takesValue
        ? ''
        : asked !== null
          ? `:value:_svc_${asked}`
          : choices.length > 0
            ? `:value:(${choices.join(' ')})`
            : ':value:_files'
      const names = short === null ? `'${long}` : `'(${long} ${short})'{${long},${short}}'`
      return `${names}[${zshText(help)}]${value}'`
    })
    return `    ${quoted([name])}) _arguments -s ${specs.join(' ')} '*:${operandValues === null ? 'file:_files' : `${operandValues}:_svc_${operandValues}`}' ;;`
  })
  return `#compdef svc
# zsh completion of svc: svc completion zsh > a file _svc in a directory of $fpath, or source <(svc completion zsh)
_svc_ask() {
  local -a found
  local entry
  for entry in "\${(@f)$("$svc_program" values "$1" "$svc_line" 2>/dev/null </dev/null)}"; do
    [[ -n "$entry" ]] && found+=("\${\${entry%%$'\\t'*}//:/\\\\:}:\${entry#*$'\\t'}")
  done
  _describe "$1" found
}
${completedValues.map(kind => `_svc_${kind}() { _svc_ask ${kind} }`).join('\n')}
_svc() {
  local svc_program="\${(Q)words[1]}" svc_line="\${words[1,CURRENT]}"
  local -a commands
  commands=(${describe(firstWords(commands))})
  if (( CURRENT == 2 )); then _describe 'command' commands; return; fi
  local command="$words[2]"
  shift words; (( CURRENT-- ))
  if [[ "$command" == help ]]; then _describe 'command' commands; return; fi
  local svc_also
  while true; do
    commands=() svc_also=''
    case "$command" in
${[...groups]
  .map(
    ([typed, { isCommand, next }]) =>
      `      ${quoted([typed])}) commands=(${describe(next)})${isCommand ? ' svc_also=1' : ''} ;;`
  )
  .join('\n')}
      *) break ;;
    esac
    if (( CURRENT == 2 )); then
      _describe 'command' commands
      if [[ -n "$svc_also" ]]; then break; else return; fi
    fi
    if (( ! \${commands[(I)\${words[2]}:*]} )); then break; fi
    command="$command $words[2]"
    shift words; (( CURRENT-- ))
  done
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

/** Returns the fish command that asks svc for values; svc answers within two seconds. */
function askFish(kind: CompletedValues): string {
  return `(svc values ${kind} (commandline -cp | string collect) 2>/dev/null </dev/null)`
}

function renderFish(commands: readonly CompletedCommand[]): string {
  const lines = [
    '# fish completion of svc: svc completion fish > ~/.config/fish/completions/svc.fish',
    'complete -c svc -f'
  ]
  const offer = (when: string, [word, summary]: [string, string]): void =>
    void lines.push(`complete -c svc -n ${fishText(when)} -a ${fishText(word)} -d ${fishText(summary)}`)
  for (const first of firstWords(commands)) {
    offer('__fish_use_subcommand', first)
    offer('__fish_seen_subcommand_from help', first)
  }
  const groups = groupsOf(commands)
  const seen = (words: string): string =>
    words
      .split(' ')
      .map(word => `__fish_seen_subcommand_from ${word}`)
      .join('; and ')
  const without = (next: Group['next']): string =>
    `; and not __fish_seen_subcommand_from ${next.map(([word]) => word).join(' ')}`
  for (const [typed, { next }] of groups) for (const word of next) offer(`${seen(typed)}${without(next)}`, word)
  for (const { name, flags, takesOperands, operandValues } of commands) {
    const own = groups.get(name)
    const when = fishText(`${seen(name)}${own === undefined ? '' : without(own.next)}`)
    if (operandValues !== null) lines.push(`complete -c svc -n ${when} -a ${fishText(askFish(operandValues))}`)
    else if (takesOperands) lines.push(`complete -c svc -n ${when} -F`)
    for (const { long, short, takesValue, choices, asked, help } of flags) {
      const letter = short === null ? '' : ` -s ${short.slice(1)}`
      const value = !takesValue
        ? ''
        : asked !== null
          ? ` -x -a ${fishText(askFish(asked))}`
          : choices.length > 0
            ? ` -x -a ${fishText(choices.join(' '))}`
            : ' -r -F'
      lines.push(`complete -c svc -n ${when} -l ${long.slice(2)}${letter}${value} -d ${fishText(help)}`)
    }
  }
  return `${lines.join('\n')}\n`
}
