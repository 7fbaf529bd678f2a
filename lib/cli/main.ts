// Only types: "svc --help" loads this file and the help, nothing else.
import type { Command, Host } from './command.js'

/** The tasks that the help groups commands by, in its order. */
export const commandGroups = {
  deploying: 'Deploying',
  projects: 'Projects',
  logs: 'Logs',
  server: 'Server',
  data: 'Data',
  configuration: 'Configuration'
} as const

export interface CommandRow {
  /** The words that a user types; two for a command like "projects list". */
  name: string
  /** Other names for it. */
  aliases?: readonly string[]
  group: keyof typeof commandGroups
  /** At most 56 characters, so that its line of the help fits a terminal. */
  summary: string
  load(): Promise<{ command: Command }>
  /** Continues when nobody reads its output any more. Every other command has nothing left to do then. */
  outlivesReader?: boolean
  /** For completion scripts only: in no list of commands. */
  hidden?: boolean
}

/** Every command, by group, the most used first. A command's module is loaded when it runs. */
export const commands: readonly CommandRow[] = [
  { name: 'push', aliases: ['deploy'], group: 'deploying', summary: 'pack, upload and deploy (or: svc deploy)', load: () => import('./commands/push.js') },
  { name: 'status', group: 'deploying', summary: 'show a project and its last deployments', load: () => import('./commands/status.js') },
  { name: 'rollback', group: 'deploying', summary: 'deploy the archive of an earlier deployment again', load: () => import('./commands/rollback.js') },
  { name: 'init', group: 'deploying', summary: 'write svc.config.json for the current directory', load: () => import('./commands/init.js') },
  { name: 'cancel', group: 'deploying', summary: 'stop a queued or running deployment', load: () => import('./commands/cancel.js') },
  { name: 'open', group: 'deploying', summary: 'print and open the page of a deployment or project', load: () => import('./commands/open.js') },
  { name: 'build', group: 'deploying', summary: 'pack the files without uploading them', load: () => import('./commands/build.js') },

  { name: 'list', aliases: ['ls', 'projects list'], group: 'projects', summary: 'list the projects (or: svc ls, svc projects list)', load: () => import('./commands/list.js') },
  { name: 'projects create', group: 'projects', summary: 'create a project', load: () => import('./commands/projects-create.js') },
  { name: 'projects show', group: 'projects', summary: 'show the settings of a project', load: () => import('./commands/projects-show.js') },
  { name: 'projects set', group: 'projects', summary: 'change settings of a project', load: () => import('./commands/projects-set.js') },
  { name: 'projects token', group: 'projects', summary: 'print the deploy token of a project, or replace it', load: () => import('./commands/projects-token.js') },
  { name: 'projects delete', group: 'projects', summary: 'delete a project with its records and archives', load: () => import('./commands/projects-delete.js') },
  { name: 'env list', group: 'projects', summary: "list the variables of a project's scripts", load: () => import('./commands/env-list.js') },
  { name: 'env set', group: 'projects', summary: "set a variable of a project's scripts", load: () => import('./commands/env-set.js') },
  { name: 'env unset', group: 'projects', summary: "remove variables of a project's scripts", load: () => import('./commands/env-unset.js') },
  { name: 'env import', group: 'projects', summary: 'set the variables of a .env file', load: () => import('./commands/env-import.js') },

  { name: 'logs', group: 'logs', summary: 'print or follow the output of a deployment', load: () => import('./commands/logs.js') },
  { name: 'tail', group: 'logs', summary: 'print, search or follow log files of the server', load: () => import('./commands/tail.js') },

  { name: 'serve', group: 'server', summary: 'run the server', load: () => import('./commands/serve.js'), outlivesReader: true },
  { name: 'doctor', group: 'server', summary: 'find out why svc does not work, and what to do', load: () => import('./commands/doctor.js') },
  { name: 'health', group: 'server', summary: 'check the server; for containers and scripts', load: () => import('./commands/health.js') },
  { name: 'systemd', group: 'server', summary: 'print a systemd unit for the server', load: () => import('./commands/systemd.js') },
  {
    name: 'admin reset-password',
    aliases: ['reset-password'],
    group: 'server',
    summary: 'set another admin token',
    load: () => import('./commands/admin-reset-password.js')
  },

  { name: 'backup', group: 'data', summary: 'write the whole data directory into one file', load: () => import('./commands/backup.js') },
  { name: 'restore', group: 'data', summary: 'restore the data directory from a backup', load: () => import('./commands/restore.js') },
  { name: 'export', group: 'data', summary: 'write projects and deployments into a package', load: () => import('./commands/export.js') },
  { name: 'import', group: 'data', summary: 'import an export package', load: () => import('./commands/import.js') },
  { name: 'verify', group: 'data', summary: 'check the data directory and its references', load: () => import('./commands/verify.js') },
  { name: 'home', group: 'data', summary: 'print the data directory', load: () => import('./commands/home.js') },

  { name: 'login', group: 'configuration', summary: 'check a token and store it for its server', load: () => import('./commands/login.js') },
  { name: 'logout', group: 'configuration', summary: 'remove the stored tokens of a server', load: () => import('./commands/logout.js') },
  { name: 'whoami', group: 'configuration', summary: 'show which tokens are used here, and what for', load: () => import('./commands/whoami.js') },
  { name: 'config', group: 'configuration', summary: 'show the effective configuration and its sources', load: () => import('./commands/config.js') },
  { name: 'config:set', group: 'configuration', summary: 'store a value in the configuration', load: () => import('./commands/config-set.js') },
  { name: 'config:list', group: 'configuration', summary: 'show the global configuration', load: () => import('./commands/config-list.js') },
  { name: 'completion', group: 'configuration', summary: 'print the completion script of a shell', load: () => import('./commands/completion.js') },
  { name: 'telemetry:status', group: 'configuration', summary: 'show whether and where usage statistics are sent', load: () => import('./commands/telemetry-status.js') },
  { name: 'telemetry:on', group: 'configuration', summary: 'allow usage statistics', load: () => import('./commands/telemetry-on.js') },
  { name: 'telemetry:off', group: 'configuration', summary: 'send no usage statistics', load: () => import('./commands/telemetry-off.js') },
  { name: 'telemetry:endpoint', group: 'configuration', summary: 'set the address that usage statistics are sent to', load: () => import('./commands/telemetry-endpoint.js') },
  { name: 'version', group: 'configuration', summary: 'print the version of svc', load: () => import('./commands/version.js') },
  { name: 'values', group: 'configuration', summary: 'print values that a shell offers', hidden: true, load: () => import('./commands/values.js') },
  { name: 'help', group: 'configuration', summary: 'show this page, or that of a command', load: () => Promise.reject(new Error('help is no module')) }
]

/** Words that users know from other tools, and the command that does the same here. */
const known: Readonly<Record<string, string>> = {
  up: 'push', upload: 'push', publish: 'push', release: 'push', ship: 'push',
  undo: 'rollback', revert: 'rollback', stop: 'cancel', abort: 'cancel',
  ps: 'status', info: 'status', history: 'status', pack: 'build', new: 'init', link: 'init',
  start: 'serve', server: 'serve', run: 'serve', daemon: 'serve', log: 'logs', auth: 'login', signin: 'login', signout: 'logout',
  check: 'doctor', settings: 'config', set: 'config:set', man: 'help', browse: 'open', dashboard: 'open'
}

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
    const row = commands.find(({ name, aliases = [] }) => typed === name || aliases.includes(typed))
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
  const [{ renderOverview }, { readdirSync }] = await Promise.all([import('./help.js'), import('node:fs')])
  // A client's bundle has no server, and none of the commands that need one.
  const modules = readdirSync(new URL('./commands/', import.meta.url))
  const isHere = ({ name }: CommandRow): boolean => name === 'help' || modules.includes(`${name.replace(/[ :]/g, '-')}.js`)
  host.stdout.write(renderOverview(rows.filter(row => row.hidden !== true && isHere(row)), commandGroups))
  return 0
}

async function version(host: Host): Promise<number> {
  const { packageVersion } = await import('./commands/version.js')
  host.stdout.write(`${await packageVersion()}\n`)
  return 0
}

async function unknown(words: readonly string[], host: Host): Promise<number> {
  const group = commands.filter(({ name, aliases = [] }) => [name, ...aliases].some(typed => typed.startsWith(`${words[0]} `)))
  const [, second = '--help'] = words
  if (group.length > 0 && (second === '--help' || second === '-h')) return await overview(group, host)
  const [{ closest }, { cleanText }] = await Promise.all([import('../base/suggest.js'), import('./terminal-text.js')])
  const typed = group.length > 0 ? `${words[0]} ${second}` : (words[0] as string)
  const names = commands.filter(({ hidden }) => hidden !== true).flatMap(({ name, aliases = [] }) => [name, ...aliases])
  const meant = Object.hasOwn(known, typed) ? known[typed] : (closest(typed, names) ?? group.find(({ name }) => name.startsWith(`${words[0]} `))?.name)
  const what = typed.startsWith('-') ? `unknown option "${typed}" before the command` : `unknown command "${typed}"`
  host.stderr.write(cleanText(`error: ${what}${meant === undefined ? '' : `: did you mean "${meant}"?`}\n`))
  host.stderr.write('Run "svc --help" for the list of commands.\n')
  return 2
}
