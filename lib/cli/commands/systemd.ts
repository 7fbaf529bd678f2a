import { existsSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkPublicUrl } from '../../config/public-url.js'
import { normaliseBase } from '../../http/base-path.js'
import { isLoopback } from '../../http/client-address.js'
import { usage, wordsOf, type OptionRow, type OptionTable } from '../args.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { renderUnit } from '../unit.js'
import { command as serve } from './serve.js'

const program = fileURLToPath(new URL('../../../../bin/svc.js', import.meta.url))
const defaultPort = 5431 // §1
const defaultUser = 'svc'

/** What is not the unit's: systemd supervises, and is told when the server is ready. */
const { pm2: _, runtime: __, 'ready-file': ___, ...passedOn } = serve.options as Record<string, OptionRow>

export const command = defineCommand({
  operands: {},
  options: {
    user: { type: 'text', value: 'name', default: defaultUser, help: 'whom the server, and the scripts of deployments, run as' },
    'multi-user': { type: 'switch', help: 'run as root with few of its rights, so that each project can have a user of its own (runAs)' },
    home: { type: 'text', value: 'dir', default: '/var/lib/svc', help: 'the data directory' },
    path: { type: 'text', value: 'dir', repeatable: true, help: 'where deployments go: this directory can be written' },
    'public-url': { type: 'text', value: 'url', help: 'the address in browsers (SVC_PUBLIC_URL): links use it, other host names are refused' },
    ...passedOn
  } as OptionTable,
  details:
    'Prints the unit, and on standard error how to install it. All options of "svc serve" but those for other\n' +
    'supervisors are passed on. Everything else is read-only for the server and the scripts of deployments, so name with\n' +
    '--path each deployPath, or a directory above it; what may be changed by hand, the unit says where it stands.',
  examples: [
    ['systemd --path /srv/www', 'for deployments below /srv/www, at 127.0.0.1:5431'],
    ['systemd --path /srv/www --public-url https://deploy.example.org', 'behind a proxy that has this address'],
    ['systemd --multi-user --path /srv', 'for projects of several users'],
    ['systemd --user deploy --home /var/lib/deploy --host :: --port 443', 'another user, and a port for root']
  ],
  async run({ options }, { cwd, output }: Context) {
    const values = options as Record<string, unknown>
    const isMultiUser = values['multi-user'] === true
    if (isMultiUser && values['user'] !== defaultUser) {
      throw usage('--user', '--user cannot be given with --multi-user: the server runs as root then')
    }
    const user = isMultiUser ? 'root' : values['user'] as string
    if (!/^[a-z_][a-z0-9_-]{0,30}$/i.test(user)) throw usage('--user', `--user cannot be "${user}": it is the name of a user`)
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
  'Give the address in browsers with --public-url, like https://deploy.example.org: requests for other host names are refused then'

/** As `svc serve` will check it, so that the unit can start. */
function publicUrlOf(values: Record<string, unknown>): string | null {
  const text = values['public-url'] as string | undefined
  if (text === undefined) return null
  return checkPublicUrl(text.trim(), { base: normaliseBase(values['base'] as string), name: '--public-url', kind: 'usage' })
}

/** Whether people will reach the server under another address than one of this machine: directly, or through a proxy. */
function isForOthers({ host = '127.0.0.1', socket, base }: Record<string, unknown>): boolean {
  return socket !== undefined || normaliseBase(base as string) !== '' || (host !== 'localhost' && !isLoopback(host as string))
}

/** Relative paths are those of this directory, not of the one the server will run in. */
function absoluteFiles(values: Record<string, unknown>, cwd: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([flag, value]) =>
    isFile(flag) && value !== undefined ? [flag, directory(`--${flag}`, String(value), cwd)] : [flag, value]))
}

function filesOf(values: Record<string, unknown>): string[] {
  return Object.entries(values).flatMap(([flag, value]) => (isFile(flag) && value !== undefined ? [String(value)] : []))
}

function isFile(flag: string): boolean {
  return ['file', 'path'].includes(passedOn[flag]?.value ?? '')
}

function directory(flag: string, path: string, cwd: string): string {
  // A line of the unit ends at one, whatever is done to it.
  if (/[\x00-\x1f\x7f]/.test(path)) throw usage(flag, `${flag} cannot be used: it holds a control character`)
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
    ...(isMultiUser ? ['For each project, a user and a directory; the project names the user in its field runAs:',
      '  useradd --system --shell /usr/sbin/nologin <user>',
      `  install -d -o <user> -g <user> "${paths[0] ?? '/srv'}/<project>"`] : []),
    `Then: systemctl status svc. The admin token is in ${home}/config.json; "journalctl -u svc" is the log.`
  ]
}

/** What lies where the service cannot see it, or its user may have no way to. */
function warnings({ user, isMultiUser, home, paths }: Installed): string[] {
  const programs = [process.execPath, program]
  const hidden = [...programs, home, ...paths].filter(path => /^\/(var\/)?tmp(\/|$)/.test(path))
  const closed = programs.filter(path => /^\/(root|home)\//.test(path))
  return [
    ...hidden.map(path => `${path} cannot be seen by the service, which has a /tmp of its own (PrivateTmp): choose another place`),
    ...(isMultiUser ? [] : closed).map(path => `${path} is where "${user}" may have no way to: give Node and svc a place like /usr/local or /opt`)
  ]
}
