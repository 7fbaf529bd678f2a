// Static imports are types and the table of commands only, so that "svc --help" loads nothing but this file, the table
// and the help.
import type { Command, CommandRow } from './command.js'
import type { Host } from './terminal/output.js'
import { commandGroups, commands, topics } from './command-table.js'

/** Runs one command line, given without node and script. Returns the exit code; throws only bugs. */
export async function main(words: readonly string[], host: Host): Promise<number> {
  const asked = words[0] === 'help' ? [...words.slice(1), '--help'] : words
  const [first] = asked
  const row = find(asked)
  const end = watchOutput(host, row ?? { reader: 'awaited' })
  if (first === '--all' && words[0] === 'help') return overview(commands, host)
  if (first === undefined || ['help', '--help', '-h'].includes(first))
    return asked.includes('--all') ? overview(commands, host) : start(host)
  if (['--version', '-V', '-v'].includes(words[0] as string)) return version(host)
  if (row === undefined) return (await topic(asked, host)) ?? (await unknown(asked, host))
  if (isOtherSpelling(asked)) return await refuse(asked.slice(0, 2), asked, host)
  return end(await run(row, asked.slice(row.words), host))
}

/** Handles failed writes to the output, as `reader` says. Returns what a code becomes: 1 if wanted output was lost. */
function watchOutput({ stdout, stderr, exit }: Host, { reader }: Pick<CommandRow, 'reader'>): (code: number) => number {
  let [isLost, hasEnded] = [false, reader !== undefined]
  stdout.on('error', async (error: NodeJS.ErrnoException) => {
    if (isLost || reader === 'ignored') return
    // The reader of a pipe may stop early (`svc logs … | head`): that is not an error.
    if (error.code === 'EPIPE' && reader !== 'needed') return reader === 'awaited' ? exit(0) : undefined
    isLost = true
    const { reasonOf } = await import('../base/errors.js')
    stderr.write(`error: Cannot write to standard output: ${reasonOf(error)}\n`)
    if (hasEnded) exit(1)
  })
  stderr.on('error', () => {})
  return code => {
    hasEnded = true
    return code === 0 && isLost ? 1 : code
  }
}

function find(words: readonly string[]): (CommandRow & { words: number }) | undefined {
  for (const count of [3, 2, 1]) {
    const typed = words.slice(0, count).join(' ')
    const row = commands.find(({ name, aliases = [] }) => typed === name || aliases.includes(typed))
    // "logs sources" is no command, although "logs" is one.
    const isLonger = words.length > count && groupOf(words.slice(0, count + 1)).length > 0
    if (row !== undefined) return isLonger ? undefined : { ...row, words: count }
  }
  return undefined
}

/** Returns the commands that have these words and more. */
function groupOf(words: readonly string[]): CommandRow[] {
  const typed = `${words.join(' ')} `
  return commands.filter(({ name, aliases = [] }) => [name, ...aliases].some(each => each.startsWith(typed)))
}

/** Whether two words are a command that is written with a colon, such as `config set`. */
function isOtherSpelling([first, second]: readonly string[]): boolean {
  return commands.some(({ name }) => name === `${first}:${second}`)
}

async function run(row: CommandRow, words: readonly string[], host: Host): Promise<number> {
  const [{ exitCodes, parseArgs }, { createOutput }, command] = await Promise.all([
    import('./command.js'),
    import('./terminal/output.js'),
    row.load().catch(missing)
  ])
  const output = createOutput(host)
  if (command === null) {
    output.error(`"svc ${row.name}" is not part of the client package. Install the full svc package`)
    return exitCodes.failed
  }
  try {
    const { options, operands, wantsHelp } = parseArgs(words, command.options, command.operands)
    if (wantsHelp) {
      const { renderCommand } = await import('./command-help.js')
      await output.write(renderCommand(row, command))
      return exitCodes.success
    }
    const input = { options: options as never, operands: operands as never }
    const code = await command.run(input, { host, env: host.env, cwd: host.cwd(), output, command, commands })
    return code ?? exitCodes.success
  } catch (error) {
    if (isInterrupted(error)) return exitCodes.interrupted
    const { exitCode, sentence } = await explain(error, command)
    output.error(sentence)
    if (exitCode === exitCodes.usage) output.note(`Run "svc ${row.name} --help" for the options and examples.`)
    return exitCode
  }
}

/** Whether Ctrl-C or a kill ended the command. An AbortError of Node names the reason as its cause. */
function isInterrupted(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return error.name === 'Interrupted' || (error.name === 'AbortError' && isInterrupted(error.cause))
}

/**
 * Returns null if the module of the command itself does not exist. Throws every other error again. Node names the path of
 * the module, Bun what the table of commands asks for.
 */
function missing(error: unknown): null {
  const { code, message } = error as NodeJS.ErrnoException
  const isOfTable = /[\\/]commands[\\/][\w-]+\.js' imported from .*command-table\.js/.test(message)
  if (code === 'ERR_MODULE_NOT_FOUND' && isOfTable) return null
  throw error
}

/**
 * Returns the exit code and sentence for a refusal or an error of the operating system. Throws anything else: a bug.
 */
async function explain(error: unknown, command: Command): Promise<{ exitCode: number; sentence: string }> {
  const [{ Refusal, sentenceOf }, { inOptions }] = await Promise.all([
    import('../base/errors.js'),
    import('./hints.js')
  ])
  if (error instanceof Refusal) return { exitCode: error.kind === 'usage' ? 2 : 1, sentence: inOptions(error, command) }
  if (error instanceof Error && 'syscall' in error) return { exitCode: 1, sentence: sentenceOf(error) }
  throw error
}

/** Returns the commands that are in this package. That of the client contains neither the server nor what needs it. */
async function present(rows: readonly CommandRow[]): Promise<CommandRow[]> {
  const { readdirSync } = await import('node:fs')
  const modules = readdirSync(new URL('./commands/', import.meta.url))
  const isHere = ({ family }: CommandRow): boolean => family === null || modules.includes(`${family}.js`)
  return rows.filter(row => row.hidden !== true && isHere(row))
}

async function start(host: Host): Promise<number> {
  const [{ renderStart }, rows] = await Promise.all([import('./help.js'), present(commands)])
  const inGroup = (name: string): CommandRow[] => rows.filter(({ group }) => group === name)
  const shown = Object.entries(topics).filter(([name]) => inGroup(name).length > 0)
  host.stdout.write(renderStart(inGroup('verbs'), Object.fromEntries(shown)))
  return 0
}

/** Shows the commands of a topic. Returns null for other words. */
async function topic(words: readonly string[], host: Host): Promise<number | null> {
  const [name = '', second = '--help'] = words
  const about = Object.entries(topics).find(([key]) => key === name)?.[1]
  if (about === undefined || !['--help', '-h'].includes(second)) return null
  const [{ renderTopic }, rows] = await Promise.all([import('./help.js'), present(commands)])
  const own = rows.filter(({ group }) => group === name)
  host.stdout.write(renderTopic(name, about, own))
  return 0
}

async function overview(rows: readonly CommandRow[], host: Host): Promise<number> {
  const [{ renderOverview }, shown] = await Promise.all([import('./help.js'), present(rows)])
  host.stdout.write(renderOverview(shown, commandGroups))
  return 0
}

async function version(host: Host): Promise<number> {
  const { readVersion } = await import('../base/config/version.js')
  host.stdout.write(`${readVersion()}\n`)
  return 0
}

async function unknown(words: readonly string[], host: Host): Promise<number> {
  const depth = words.length > 1 && groupOf(words.slice(0, 2)).length > 0 ? 2 : 1
  const group = groupOf(words.slice(0, depth))
  const next = words[depth] ?? '--help'
  if (group.length > 0 && (next === '--help' || next === '-h')) return await overview(group, host)
  return await refuse(words.slice(0, group.length > 0 ? depth + 1 : 1), words, host)
}

/** Says that there is no such command, and which one was probably meant. */
async function refuse(typed: readonly string[], words: readonly string[], host: Host): Promise<number> {
  const [{ meantBy }, { cleanText }] = await Promise.all([import('./hints.js'), import('./terminal/terminal-text.js')])
  const text = typed.join(' ')
  const meant = meantBy(words, commands, topics)
  const what = text.startsWith('-') ? `Unknown option "${text}" before the command` : `Unknown command "${text}"`
  host.stderr.write(cleanText(`error: ${what}${meant === undefined ? '' : `: did you mean "${meant}"?`}\n`))
  host.stderr.write('Run "svc --help" for the list of commands.\n')
  return 2
}
