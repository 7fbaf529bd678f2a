import { existsSync } from 'node:fs'
import { dirname, isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkPublicUrl } from '../../base/config/home.js'
import { normaliseBase } from '../../http/core/dispatch.js'
import { isLoopback } from '../../http/core/headers.js'
import {
  type Context,
  defineCommand,
  type Family,
  option,
  type OptionRow,
  type OptionTable,
  toggle,
  usage,
  wordsOf
} from '../command.js'
import { commands as serving } from './serve.js'

const program = fileURLToPath(new URL('../../../../bin/svc.js', import.meta.url))
const defaultPort = 5431 // §1
const defaultUser = 'svc'

/** Options of `svc serve` that the unit accepts. systemd itself supervises the server and learns when it is ready. */
const { pm2: _, runtime: __, 'ready-file': ___, ...passedOn } = serving.serve.options as Record<string, OptionRow>

/** The command that prints a unit. */
export const commands = {
  systemd: defineCommand({
    options: {
      user: option('name', 'user that runs the server and the scripts of deployments', { default: defaultUser }),
      'multi-user': toggle('run as root with few capabilities, so that each project can have its own user (runAs)'),
      home: option('dir', 'data directory', { default: '/var/lib/svc' }),
      path: option('dir', 'target directory of deployments, which the unit makes writable', { repeatable: true }),
      'public-url': option('url', 'public address (SVC_PUBLIC_URL): used in links; other host names are refused'),
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
      if (isMultiUser && values['user'] !== defaultUser)
        throw usage('--user', '--user cannot be used with --multi-user: the server then runs as root')
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
    }
  })
} satisfies Family

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
          // Without it, both commands look into the data directory of root, which has neither address nor token.
          `  export SVC_HOME="${home}" && svc login`,
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

/*
 * Renders the systemd unit that runs `svc serve`: systemd.service(5), systemd.exec(5). People read and edit units, so
 * each line that they may want to change has a comment with its reason.
 */

export interface UnitOptions {
  user: string
  /** Whether the server runs as root, so that each project can have its own user (field `runAs`). */
  isMultiUser: boolean
  /** Absolute path of the data directory. */
  home: string
  /** Program and arguments, with absolute paths. */
  command: readonly string[]
  /** Target directories of deployments, as absolute paths. */
  paths: readonly string[]
  /** Files that the server only reads, such as certificates, as absolute paths. */
  reads: readonly string[]
  port: number
  /** Absolute path of a Unix socket to listen on. */
  socket: string | undefined
  /** Value of SVC_PUBLIC_URL. */
  publicUrl: string | null
}

const highestPrivilegedPort = 1023
/**
 * The capabilities that a server needs to run projects as other users: to switch to them, to stop their scripts, to
 * open files of their processes for the panel, and to follow log files that only they can read.
 */
const multiUserCapabilities = ['CAP_SETUID', 'CAP_SETGID', 'CAP_KILL', 'CAP_SYS_PTRACE', 'CAP_DAC_READ_SEARCH']
/** Time for running deployments to finish. A script may run for half an hour by default (`script_timeout`). */
const stopSeconds = 1860

export function renderUnit(options: UnitOptions): string {
  const { user, home, command, publicUrl } = options
  const isPrivileged = options.port > 0 && options.port <= highestPrivilegedPort
  const bindsPort = isPrivileged ? ['CAP_NET_BIND_SERVICE'] : []
  const ambient =
    isPrivileged && !options.isMultiUser
      ? `# To listen on port ${options.port}, which needs this capability or root.\nAmbientCapabilities=${bindsPort.join()}\n`
      : ''
  const capabilities = [...(options.isMultiUser ? multiUserCapabilities : []), ...bindsPort]
  return `# Written by "svc systemd". After a change: systemctl daemon-reload && systemctl restart svc
[Unit]
Description=svc, a deployment service
Wants=network-online.target
After=network-online.target

[Service]
# The unit is "active" once svc answers requests. svc runs systemd-notify as another process, hence NotifyAccess=all.
Type=notify
NotifyAccess=all
${owner(options)}
ExecStart=${commandLine(command)}
ExecReload=/bin/kill -HUP $MAINPID
# The server reads ADMIN_TOKEN from an .env.local in this directory.
WorkingDirectory=${specifiers(home)}
Environment=${word(`SVC_HOME=${home}`)}
# The public address. Links use it, and requests for other host names are refused.
${publicUrl === null ? '#Environment=SVC_PUBLIC_URL=https://deploy.example.org' : `Environment=${word(`SVC_PUBLIC_URL=${publicUrl}`)}`}
${directories(options)}
# Recovery after a killed server may take a while.
TimeoutStartSec=600
Restart=on-failure
RestartSec=5
# 2: the command line is wrong. A restart does not help.
RestartPreventExitStatus=2

# Only the server gets SIGTERM; it waits for running deployments. A script may take half an hour (script_timeout). If
# you raise that setting, raise TimeoutStopSec, too. systemd then kills all remaining processes, including daemons that
# scripts started. Give daemons their own unit, or set KillMode=process to keep them running.
KillMode=mixed
TimeoutStopSec=${stopSeconds}

# The restrictions below also apply to the scripts of deployments. Remove lines that your scripts cannot work with.
# The file system is read-only except for StateDirectory, RuntimeDirectory and ReadWritePaths.
ProtectSystem=strict
${protectHome(options)}
${writable(options)}
PrivateTmp=yes
PrivateDevices=yes
# Scripts cannot use sudo. To let scripts restart other units, allow it to ${user} with polkit.
NoNewPrivileges=yes
${ambient}CapabilityBoundingSet=${capabilities.join(' ')}
# AF_NETLINK: to list the network addresses of the machine.
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
# MemoryDenyWriteExecute is missing because Node compiles JavaScript to executable memory and would not start.
# SystemCallFilter is missing because the system calls of deployment scripts are unknown.
SystemCallArchitectures=native
LockPersonality=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes

[Install]
WantedBy=multi-user.target
`
}

function owner({ user, isMultiUser }: UnitOptions): string {
  if (!isMultiUser) return `User=${specifiers(user)}\nGroup=${specifiers(user)}`
  return `# Root with few capabilities (CapabilityBoundingSet). Each project names its own user in the field runAs.
# svc runs the scripts and changes the files of the project as this user. A project without runAs has the rights of this unit.
User=root`
}

/** Returns the lines for directories that systemd creates for the user. */
function directories({ home, socket }: UnitOptions): string {
  const state = below('/var/lib', home)
  const runtime = socket === undefined ? null : below('/run', dirname(socket))
  const lines = [
    state === null
      ? '# The data directory is not below /var/lib, so it must exist and belong to the user.'
      : `StateDirectory=${word(state)}\nStateDirectoryMode=0700`
  ]
  if (runtime !== null) {
    lines.push(
      `# For the socket. A proxy that connects to it must be in the group of the user.\nRuntimeDirectory=${word(runtime)}`
    )
  }
  return lines.join('\n')
}

/** Returns the line for ProtectHome. "yes" would hide paths below /home even if ReadWritePaths lists them. */
function protectHome({ command, home, paths, reads }: UnitOptions): string {
  const isHidden = (path: string): boolean => /^\/(home|root|run\/user)(\/|$)/.test(path)
  const needed = [...command, home, ...paths, ...reads].find(isHidden)
  if (needed === undefined) return 'ProtectHome=yes'
  return `# "yes" would hide /home, /root and /run/user, but the server needs ${specifiers(needed)}.\nProtectHome=read-only`
}

function writable({ home, paths, socket, isMultiUser }: UnitOptions): string {
  const others = [
    ...(below('/var/lib', home) === null ? [home] : []),
    ...(socket !== undefined && below('/run', dirname(socket)) === null ? [dirname(socket)] : [])
  ]
  const all = [...others, ...paths]
  return [
    isMultiUser
      ? '# One line for each target directory, or for a directory above it. A target must exist and belong to the user of its project.'
      : '# One line for each target directory, or for a directory above it. It must exist and belong to the user.',
    ...(paths.length === 0 ? ['#ReadWritePaths=/srv/www'] : []),
    ...all.map(path => `ReadWritePaths=${word(path)}`)
  ].join('\n')
}

/** Returns the rest of a path below a directory, or null if the path is elsewhere. */
function below(directory: string, path: string): string | null {
  return path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : null
}

/** Escapes `%`, which begins a specifier everywhere in a unit. */
function specifiers(text: string): string {
  return text.replace(/%/g, '%%')
}

/** Returns one word of a list, in quotes if necessary. See systemd.syntax(7). */
function word(text: string): string {
  const plain = specifiers(text)
  return /^[\w./:@%+,=-]+$/.test(plain) ? plain : `"${plain.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n')}"`
}

/** Returns a command line. Escapes `$` in the arguments, the only place where it begins a variable. */
function commandLine([program = '', ...words]: readonly string[]): string {
  return [word(program), ...words.map(each => word(each).replace(/\$/g, '$$$$'))].join(' ')
}
