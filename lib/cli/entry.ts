// Static imports are types and the table of commands only, so that "svc --help" loads nothing but this file, the table
// and the help.
import type { CommandRow } from './command.js'
import { commandGroups, commands } from './command-table.js'
import type { Host } from './host.js'

/** Commands of other tools, and the svc command that does the same. */
const known: Readonly<Record<string, string>> = {
  up: 'push',
  upload: 'push',
  publish: 'push',
  release: 'push',
  ship: 'push',
  revert: 'rollback',
  stop: 'cancel',
  abort: 'cancel',
  ps: 'status',
  info: 'status',
  history: 'status',
  pack: 'build',
  new: 'init',
  link: 'init',
  start: 'serve',
  server: 'serve',
  run: 'serve',
  daemon: 'serve',
  log: 'logs',
  auth: 'login',
  signin: 'login',
  signout: 'logout',
  check: 'doctor',
  settings: 'config',
  set: 'config:set',
  man: 'help',
  browse: 'open',
  dashboard: 'open'
}

/** Runs one command line, given without node and script. Returns the exit code; throws only bugs. */
export async function main(words: readonly string[], host: Host): Promise<number> {
  const asked = words[0] === 'help' ? [...words.slice(1), '--help'] : words
  const [first] = asked
  const row = find(asked)
  // The reader of a pipe may stop early (`svc logs … | head`): that is not an error.
  host.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (!row?.outlivesReader) host.exit(error.code === 'EPIPE' ? 0 : 1)
  })
  // Writing fails once the terminal of a server was closed. The server must keep running.
  if (row?.outlivesReader) host.stderr.on('error', () => {})
  if (first === undefined || ['help', '--help', '-h'].includes(first)) return overview(commands, host)
  if (['--version', '-V', '-v'].includes(words[0] as string)) return version(host)
  if (row === undefined) return await unknown(asked, host)
  return await run(row, asked.slice(row.words), host)
}

function find(words: readonly string[]): (CommandRow & { words: number }) | undefined {
  for (const count of [2, 1]) {
    const typed = words.slice(0, count).join(' ')
    const row = commands.find(({ name, aliases = [] }) => typed === name || aliases.includes(typed))
    if (row !== undefined) return { ...row, words: count }
  }
  return undefined
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
      const { renderCommand } = await import('./help.js')
      await output.write(renderCommand(row, command))
      return exitCodes.success
    }
    const input = { options: options as never, operands: operands as never }
    const code = await command.run(input, { host, env: host.env, cwd: host.cwd(), output, command, commands })
    return code ?? exitCodes.success
  } catch (error) {
    if (isInterrupted(error)) return exitCodes.interrupted
    const { exitCode, sentence } = await explain(error)
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
async function explain(error: unknown): Promise<{ exitCode: number; sentence: string }> {
  const { messageOf, Refusal } = await import('../base/errors.js')
  if (error instanceof Refusal) return { exitCode: error.kind === 'usage' ? 2 : 1, sentence: error.message }
  if (error instanceof Error && 'syscall' in error) return { exitCode: 1, sentence: messageOf(error) }
  throw error
}

async function overview(rows: readonly CommandRow[], host: Host): Promise<number> {
  const [{ renderOverview }, { readdirSync }] = await Promise.all([import('./help.js'), import('node:fs')])
  // The client package contains neither the server nor the commands that need it.
  const modules = readdirSync(new URL('./commands/', import.meta.url))
  const isHere = ({ family }: CommandRow): boolean => family === null || modules.includes(`${family}.js`)
  host.stdout.write(
    renderOverview(
      rows.filter(row => row.hidden !== true && isHere(row)),
      commandGroups
    )
  )
  return 0
}

async function version(host: Host): Promise<number> {
  const { packageVersion } = await import('../base/config/version.js')
  host.stdout.write(`${packageVersion()}\n`)
  return 0
}

async function unknown(words: readonly string[], host: Host): Promise<number> {
  const group = commands.filter(({ name, aliases = [] }) =>
    [name, ...aliases].some(typed => typed.startsWith(`${words[0]} `))
  )
  const [, second = '--help'] = words
  if (group.length > 0 && (second === '--help' || second === '-h')) return await overview(group, host)
  const [{ closest }, { cleanText }] = await Promise.all([
    import('../base/text.js'),
    import('./terminal/terminal-text.js')
  ])
  const typed = group.length > 0 ? `${words[0]} ${second}` : (words[0] as string)
  const names = commands.filter(({ hidden }) => hidden !== true).flatMap(({ name, aliases = [] }) => [name, ...aliases])
  const meant = Object.hasOwn(known, typed)
    ? known[typed]
    : (closest(typed, names) ?? group.find(({ name }) => name.startsWith(`${words[0]} `))?.name)
  const what = typed.startsWith('-') ? `Unknown option "${typed}" before the command` : `Unknown command "${typed}"`
  host.stderr.write(cleanText(`error: ${what}${meant === undefined ? '' : `: did you mean "${meant}"?`}\n`))
  host.stderr.write('Run "svc --help" for the list of commands.\n')
  return 2
}
