import { existsSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkPublicUrl } from '../../config/public-url.js'
import { normaliseBase } from '../../http/core/dispatch.js'
import { isLoopback } from '../../http/core/headers.js'
import { type Context, defineCommand, exitCodes, type OptionRow, type OptionTable, usage, wordsOf } from '../command.js'
import { renderUnit } from '../service/unit.js'
import { command as serve } from './serve.js'

const program = fileURLToPath(new URL('../../../../bin/svc.js', import.meta.url))
const defaultPort = 5431 // §1
const defaultUser = 'svc'

/** Options of `svc serve` that the unit accepts. systemd itself supervises the server and learns when it is ready. */
const { pm2: _, runtime: __, 'ready-file': ___, ...passedOn } = serve.options as Record<string, OptionRow>

/** The command `svc systemd`. */
export const command = defineCommand({
  operands: {},
  options: {
    user: {
      type: 'text',
      value: 'name',
      default: defaultUser,
      help: 'user that runs the server and the scripts of deployments'
    },
    'multi-user': {
      type: 'switch',
      help: 'run as root with few capabilities, so that each project can have its own user (runAs)'
    },
    home: { type: 'text', value: 'dir', default: '/var/lib/svc', help: 'data directory' },
    path: {
      type: 'text',
      value: 'dir',
      repeatable: true,
      help: 'target directory of deployments, which the unit makes writable'
    },
    'public-url': {
      type: 'text',
      value: 'url',
      help: 'public address (SVC_PUBLIC_URL): used in links; other host names are refused'
    },
    ...passedOn
  } as OptionTable,
  details:
    'Prints the unit to standard output, and installation instructions to standard error. Accepts all options of\n' +
    '"svc serve" except those for other supervisors.\n\n' +
    'The unit makes the file system read-only for the server and the scripts of deployments. Use --path for each\n' +
    'target directory, or for a directory above it. Comments in the unit say what you can change by hand.',
  examples: [
    ['systemd --path /srv/www', 'deploy below /srv/www, and listen on 127.0.0.1:5431'],
    ['systemd --path /srv/www --public-url https://deploy.example.org', 'run behind a proxy with this address'],
    ['systemd --multi-user --path /srv', 'run projects as several users'],
    ['systemd --user deploy --home /var/lib/deploy --host :: --port 443', 'use another user and a privileged port']
  ],
  async run({ options }, { cwd, output }: Context) {
    const values = options as Record<string, unknown>
    const isMultiUser = values['multi-user'] === true
    if (isMultiUser && values['user'] !== defaultUser) {
      throw usage('--user', '--user cannot be used with --multi-user: the server then runs as root')
    }
    const user = isMultiUser ? 'root' : (values['user'] as string)
    if (!/^[a-z_][a-z0-9_-]{0,30}$/i.test(user))
      throw usage('--user', `--user cannot be "${user}": it must be the name of a user`)
    const serveValues = absoluteFiles(values, cwd)
    const home = directory('--home', values['home'] as string, cwd)
    const paths = (values['path'] as string[]).map(path => directory('--path', path, cwd))
    const socket = serveValues['socket'] as string | undefined
    const publicUrl = publicUrlOf(values)
    const node = process.execPath
    const unit = renderUnit({
      user,
      isMultiUser,
      home,
      command: [node, program, 'serve', ...wordsOf(passedOn, serveValues)],
      paths,
      reads: filesOf(serveValues).filter(path => path !== socket),
      port: socket === undefined ? ((serveValues['port'] as number | undefined) ?? defaultPort) : defaultPort,
      socket,
      publicUrl
    })
    await output.write(unit)
    for (const line of advice({ user, isMultiUser, home, paths })) output.note(line)
    if (publicUrl === null && isForOthers(values)) output.note(publicUrlAdvice)
    for (const line of warnings({ user, isMultiUser, home, paths })) output.warn(line)
    return exitCodes.success
  }
})

const publicUrlAdvice =
  'Use --public-url, for example https://deploy.example.org, to set the public address: the server then refuses other host names'

/** Checks the public address as `svc serve` does, so that the unit can start. */
function publicUrlOf(values: Record<string, unknown>): string | null {
  const text = values['public-url'] as string | undefined
  if (text === undefined) return null
  return checkPublicUrl(text.trim(), {
    base: normaliseBase(values['base'] as string),
    name: '--public-url',
    kind: 'usage'
  })
}

/** Returns whether other machines reach the server, directly or through a proxy. */
function isForOthers({ host = '127.0.0.1', socket, base }: Record<string, unknown>): boolean {
  return (
    socket !== undefined ||
    normaliseBase(base as string) !== '' ||
    (host !== 'localhost' && !isLoopback(host as string))
  )
}

/** Makes paths absolute. Relative paths refer to the current directory, not to the directory of the server. */
function absoluteFiles(values: Record<string, unknown>, cwd: string): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).map(([flag, value]) =>
      isFile(flag) && value !== undefined ? [flag, directory(`--${flag}`, String(value), cwd)] : [flag, value]
    )
  )
}

function filesOf(values: Record<string, unknown>): string[] {
  return Object.entries(values).flatMap(([flag, value]) => (isFile(flag) && value !== undefined ? [String(value)] : []))
}

function isFile(flag: string): boolean {
  return ['file', 'path'].includes(passedOn[flag]?.value ?? '')
}

function directory(flag: string, path: string, cwd: string): string {
  // A control character would end or corrupt a line of the unit.
  if (/[\x00-\x1f\x7f]/.test(path)) throw usage(flag, `${flag} cannot be used: it contains a control character`)
  if (path === '') throw usage(flag, `${flag} needs a value: it is empty`)
  return isAbsolute(path) ? resolve(path) : resolve(cwd, path)
}

interface Installed {
  user: string
  isMultiUser: boolean
  home: string
  paths: readonly string[]
}

function advice({ user, isMultiUser, home, paths }: Installed): string[] {
  const isMissing = (path: string): boolean => !existsSync(path)
  const missing = [...(home.startsWith('/var/lib/') ? [] : [home]), ...(isMultiUser ? [] : paths)].filter(isMissing)
  return [
    'To install it, as root:',
    ...(isMultiUser ? [] : [`  useradd --system --home-dir "${home}" --shell /usr/sbin/nologin ${user}`]),
    ...missing.map(path => `  install -d -o ${user} -g ${user} "${path}"`),
    ...(isMultiUser ? paths.filter(isMissing).map(path => `  install -d "${path}"`) : []),
    '  svc systemd … > /etc/systemd/system/svc.service',
    '  systemctl enable --now svc',
    ...(isMultiUser
      ? [
          'Give each project a user of its own (its field runAs) and a directory. As root:',
          `  svc projects create <project> --path "${paths[0] ?? '/srv'}/<project>" --user <user>`,
          `  install -d -o <user> -g <user> "${paths[0] ?? '/srv'}/<project>"`
        ]
      : []),
    `Then check it with "systemctl status svc". The admin token is in ${home}/config.json. "journalctl -u svc" shows the log.`
  ]
}

/** Returns warnings about paths that the service or its user cannot access. */
function warnings({ user, isMultiUser, home, paths }: Installed): string[] {
  const programs = [process.execPath, program]
  const hidden = [...programs, home, ...paths].filter(path => /^\/(var\/)?tmp(\/|$)/.test(path))
  const closed = programs.filter(path => /^\/(root|home)\//.test(path))
  return [
    ...hidden.map(
      path => `${path} is invisible to the service, which has a private /tmp (PrivateTmp). Choose another directory`
    ),
    ...(isMultiUser ? [] : closed).map(
      path => `"${user}" may be unable to access ${path}. Install Node and svc in a directory like /usr/local or /opt`
    )
  ]
}
