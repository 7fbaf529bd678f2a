// Only types: "svc --help" loads this file and the help, nothing else.
import type { Command, Host } from './command.js'

export interface CommandRow {
  /** As it is typed; two words where it belongs to a group. */
  name: string
  alias?: string
  summary: string
  load(): Promise<{ command: Command }>
  /** Goes on when nobody reads its output any more. Every other command has nothing left to do then. */
  outlivesReader?: boolean
}

/** Every command. What a command needs is loaded when it runs. */
export const commands: readonly CommandRow[] = [
  { name: 'serve', summary: 'run the server', load: () => import('./commands/serve.js'), outlivesReader: true },
  {
    name: 'init',
    summary: 'write svc.config.json for the current directory',
    load: () => import('./commands/init.js')
  },
  { name: 'build', summary: 'pack the files without uploading them', load: () => import('./commands/build.js') },
  { name: 'push', summary: 'pack, upload and deploy', load: () => import('./commands/push.js') },
  { name: 'list', summary: 'list the projects', load: () => import('./commands/list.js') },
  { name: 'status', summary: 'show a project and its last deployments', load: () => import('./commands/status.js') },
  { name: 'logs', summary: 'print or follow the output of a deployment', load: () => import('./commands/logs.js') },
  { name: 'tail', summary: 'print, search or follow log files of the server', load: () => import('./commands/tail.js') },
  {
    name: 'rollback',
    summary: 'deploy the archive of an earlier deployment again',
    load: () => import('./commands/rollback.js')
  },
  { name: 'cancel', summary: 'stop a queued or running deployment', load: () => import('./commands/cancel.js') },
  {
    name: 'config',
    summary: 'show the configuration that counts here, and where it comes from',
    load: () => import('./commands/config.js')
  },
  { name: 'config:set', summary: 'store a value in the configuration', load: () => import('./commands/config-set.js') },
  { name: 'config:list', summary: 'show the global configuration', load: () => import('./commands/config-list.js') },
  { name: 'env list', summary: "list the variables of a project's scripts", load: () => import('./commands/env-list.js') },
  { name: 'env set', summary: "set a variable of a project's scripts", load: () => import('./commands/env-set.js') },
  { name: 'env unset', summary: "remove variables of a project's scripts", load: () => import('./commands/env-unset.js') },
  { name: 'env import', summary: 'set the variables of a .env file', load: () => import('./commands/env-import.js') },
  { name: 'export', summary: 'write projects, deployments and what was deployed into a package', load: () => import('./commands/export.js') },
  { name: 'import', summary: 'take over what a package of export holds', load: () => import('./commands/import.js') },
  { name: 'backup', summary: 'write everything in the data directory into one file', load: () => import('./commands/backup.js') },
  { name: 'restore', summary: 'make the data directory what a backup holds', load: () => import('./commands/restore.js') },
  { name: 'verify', summary: 'check the data directory and what it names', load: () => import('./commands/verify.js') },
  { name: 'systemd', summary: 'print the unit that runs the server under systemd', load: () => import('./commands/systemd.js') },
  { name: 'health', summary: 'say whether the server is well; for containers and scripts', load: () => import('./commands/health.js') },
  { name: 'home', summary: 'print the data directory', load: () => import('./commands/home.js') },
  {
    name: 'admin reset-password',
    alias: 'reset-password',
    summary: 'set another admin token',
    load: () => import('./commands/admin-reset-password.js')
  },
  { name: 'doctor', summary: 'find out what keeps svc from working here, and what to do', load: () => import('./commands/doctor.js') },
  { name: 'completion', summary: 'print the completion script of a shell', load: () => import('./commands/completion.js') },
  {
    name: 'telemetry:status',
    summary: 'say whether usage statistics are sent, and where to',
    load: () => import('./commands/telemetry-status.js')
  },
  { name: 'telemetry:on', summary: 'allow usage statistics', load: () => import('./commands/telemetry-on.js') },
  {
    name: 'telemetry:off',
    summary: 'send no usage statistics, whatever is configured',
    load: () => import('./commands/telemetry-off.js')
  },
  {
    name: 'telemetry:endpoint',
    summary: 'set where usage statistics are sent',
    load: () => import('./commands/telemetry-endpoint.js')
  },
  {
    name: 'help',
    summary: 'this page, or that of a command',
    load: () => Promise.reject(new Error('help is no module'))
  }
]

/** Runs one command line (without node and script). Answers the exit code; a bug is thrown. */
export async function main(words: readonly string[], host: Host): Promise<number> {
  const [first] = words
  const asked = first === 'help' ? [...words.slice(1), '--help'] : words
  const row = find(asked)
  // `svc logs … | head` is no error.
  host.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (!row?.outlivesReader) host.exit(error.code === 'EPIPE' ? 0 : 1)
  })
  // The terminal of a server that was closed takes nothing more.
  if (row?.outlivesReader) host.stderr.on('error', () => {})
  if (first === undefined || first === '--help' || first === '-h' || (first === 'help' && words.length === 1)) {
    return overview(commands, host)
  }
  if (first === '--version' || first === '-V' || first === '-v') return version(host)
  if (row === undefined) return await unknown(asked, host)
  return await run(row, asked.slice(row.words), host)
}

function find(words: readonly string[]): (CommandRow & { words: number }) | undefined {
  for (const count of [2, 1]) {
    const typed = words.slice(0, count).join(' ')
    const row = commands.find(({ name, alias }) => typed === name || typed === alias)
    if (row !== undefined) return { ...row, words: count }
  }
  return undefined
}

async function run(row: CommandRow, words: readonly string[], host: Host): Promise<number> {
  const [{ exitCodes }, { parseArgs }, { createOutput }, loaded] = await Promise.all([
    import('./command.js'),
    import('./args.js'),
    import('./output.js'),
    row.load().catch(missing)
  ])
  const output = createOutput(host)
  if (loaded === null) {
    output.error(`"svc ${row.name}" is not part of the client: install svc itself`)
    return exitCodes.failed
  }
  const { command } = loaded
  try {
    const { options, operands, wantsHelp } = parseArgs(words, command.options, command.operands)
    if (wantsHelp) {
      const { renderCommand } = await import('./help.js')
      await output.write(renderCommand(row, command))
      return exitCodes.success
    }
    const input = { options: options as never, operands: operands as never }
    return await command.run(input, { host, env: host.env, cwd: host.cwd(), output, command })
  } catch (error) {
    if (error instanceof Error && error.name === 'Interrupted') return exitCodes.interrupted
    const { exitCode, sentence } = await explain(error)
    output.error(sentence)
    if (exitCode === exitCodes.usage) output.note(`Run "svc ${row.name} --help" for its options and an example.`)
    return exitCode
  }
}

/** null: the command's own module is not there. */
function missing(error: unknown): null {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'ERR_MODULE_NOT_FOUND' && /cli[\\/]commands[\\/][\w-]+\.js' imported/.test(message)) return null
  throw error
}

/** A refusal, or what the operating system refused; everything else is a bug and travels on. */
async function explain(error: unknown): Promise<{ exitCode: number; sentence: string }> {
  const { Refusal } = await import('../base/refusal.js')
  const { messageOf } = await import('../base/system-error.js')
  if (error instanceof Refusal) return { exitCode: error.kind === 'usage' ? 2 : 1, sentence: error.message }
  if (error instanceof Error && 'syscall' in error) return { exitCode: 1, sentence: messageOf(error) }
  throw error
}

async function overview(rows: readonly CommandRow[], host: Host): Promise<number> {
  const [{ renderOverview }, { existsSync }] = await Promise.all([import('./help.js'), import('node:fs')])
  // A client's bundle has no server, and none of the commands that need one.
  const isHere = ({ name }: CommandRow): boolean =>
    name === 'help' || existsSync(new URL(`./commands/${name.replace(/[ :]/g, '-')}.js`, import.meta.url))
  host.stdout.write(renderOverview(rows.filter(isHere)))
  return 0
}

async function version(host: Host): Promise<number> {
  const { readFile } = await import('node:fs/promises')
  const description = JSON.parse(await readFile(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  host.stdout.write(`${description.version}\n`)
  return 0
}

async function unknown(words: readonly string[], host: Host): Promise<number> {
  const group = commands.filter(({ name }) => name.startsWith(`${words[0]} `))
  const [, second = '--help'] = words
  if (group.length > 0 && (second === '--help' || second === '-h')) return await overview(group, host)
  const [{ closest }, { cleanText }] = await Promise.all([import('../base/suggest.js'), import('./terminal-text.js')])
  const typed = group.length > 0 ? `${words[0]} ${second}` : (words[0] as string)
  const known = commands.flatMap(({ name, alias }) => (alias === undefined ? [name] : [name, alias]))
  const meant = closest(typed, known) ?? (group.length > 0 ? group[0]?.name : undefined)
  const what = typed.startsWith('-') ? `unknown option "${typed}" before the command` : `unknown command "${typed}"`
  host.stderr.write(cleanText(`error: ${what}${meant === undefined ? '' : `: did you mean "${meant}"?`}\n`))
  host.stderr.write('Run "svc --help" for the list of commands.\n')
  return 2
}
