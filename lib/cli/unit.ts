/*
 * The unit of systemd that runs `svc serve`: systemd.service(5), systemd.exec(5). Written to be read: every line that
 * one might want otherwise says why it is there.
 */
import { dirname } from 'node:path'

export interface UnitOptions {
  user: string
  /** As root, so that each project can have a user of its own (field `runAs`). */
  isMultiUser: boolean
  /** The data directory, absolute. */
  home: string
  /** Program and arguments, absolute. */
  command: readonly string[]
  /** Where deployments go, absolute. */
  paths: readonly string[]
  /** Files that the server only reads, absolute: certificates. */
  reads: readonly string[]
  port: number
  /** A Unix socket to listen on, absolute. */
  socket: string | undefined
  /** SVC_PUBLIC_URL. */
  publicUrl: string | null
}

const highestPrivilegedPort = 1023
/**
 * What a server needs of root's rights to run projects as their users: to become them, to end their scripts, to open for
 * the panel what they have opened, and to follow log files that only they may read.
 */
const multiUserCapabilities = ['CAP_SETUID', 'CAP_SETGID', 'CAP_KILL', 'CAP_SYS_PTRACE', 'CAP_DAC_READ_SEARCH']
/** A script may run for half an hour by default (`script_timeout`), and its deployment is let finish. */
const stopSeconds = 1860

/** The text of the unit. */
export function renderUnit(options: UnitOptions): string {
  const { user, home, command, publicUrl } = options
  const isPrivileged = options.port > 0 && options.port <= highestPrivilegedPort
  const bindsPort = isPrivileged ? ['CAP_NET_BIND_SERVICE'] : []
  const ambient = isPrivileged && !options.isMultiUser
    ? `# For port ${options.port}, which only root may have otherwise.\nAmbientCapabilities=${bindsPort.join()}\n` : ''
  const capabilities = [...(options.isMultiUser ? multiUserCapabilities : []), ...bindsPort]
  return `# Written by "svc systemd". After a change: systemctl daemon-reload && systemctl restart svc
[Unit]
Description=svc, a deployment service
Wants=network-online.target
After=network-online.target

[Service]
# It is "active" when everything is answered. svc tells by systemd-notify, another process than the server, thus "all".
Type=notify
NotifyAccess=all
${owner(options)}
ExecStart=${commandLine(command)}
ExecReload=/bin/kill -HUP $MAINPID
# .env.local with ADMIN_TOKEN=... may lie here.
WorkingDirectory=${specifiers(home)}
Environment=${word(`SVC_HOME=${home}`)}
# The address in browsers: links use it, and requests for other host names are refused.
${publicUrl === null ? '#Environment=SVC_PUBLIC_URL=https://deploy.example.org' : `Environment=${word(`SVC_PUBLIC_URL=${publicUrl}`)}`}
${directories(options)}
# Putting right what a killed server left behind may take a while.
TimeoutStartSec=600
Restart=on-failure
RestartSec=5
# 2: the command line is wrong, which no restart cures.
RestartPreventExitStatus=2

# Only the server gets SIGTERM; it lets running deployments finish. A script has half an hour (script_timeout): raise
# this with it. What is left of its children then is killed, daemons that scripts have started included: give those a
# unit of their own, or write KillMode=process here to let them live.
KillMode=mixed
TimeoutStopSec=${stopSeconds}

# All that follows holds for the scripts of deployments too. Take out what stands in their way.
# The file system can be read, and written only where ReadWritePaths or a directory above says so.
ProtectSystem=strict
${protectHome(options)}
${writable(options)}
PrivateTmp=yes
PrivateDevices=yes
# No sudo in a script. To restart another unit from one, let polkit permit it to ${user}.
NoNewPrivileges=yes
${ambient}CapabilityBoundingSet=${capabilities.join(' ')}
# AF_NETLINK: the list of the machine's addresses.
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
# Not MemoryDenyWriteExecute: Node compiles JavaScript into memory that it then executes, and would not start.
# Not SystemCallFilter: which calls the scripts of deployments need, nobody knows.
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
  return `# As root, with few of its rights (CapabilityBoundingSet): each project names its own user in the field runAs. Scripts
# and all work on files of such a project have that user's rights. A project without runAs has those of this unit.
User=root`
}

/** Directories that systemd makes, and gives to the user. */
function directories({ home, socket }: UnitOptions): string {
  const state = below('/var/lib', home)
  const runtime = socket === undefined ? null : below('/run', dirname(socket))
  const lines = [
    state === null
      ? '# Not below /var/lib: it must be there already, and belong to the user.'
      : `StateDirectory=${word(state)}\nStateDirectoryMode=0700`
  ]
  if (runtime !== null) {
    lines.push(`# For the socket. Whoever may connect to it (a proxy) needs to be in the user's group.\nRuntimeDirectory=${word(runtime)}`)
  }
  return lines.join('\n')
}

/** Below /home nothing can be reached otherwise, whatever ReadWritePaths says. */
function protectHome({ command, home, paths, reads }: UnitOptions): string {
  const isHidden = (path: string): boolean => /^\/(home|root|run\/user)(\/|$)/.test(path)
  const needed = [...command, home, ...paths, ...reads].find(isHidden)
  if (needed === undefined) return 'ProtectHome=yes'
  return `# Not "yes", which hides /home, /root and /run/user: ${specifiers(needed)} is there.\nProtectHome=read-only`
}

function writable({ home, paths, socket, isMultiUser }: UnitOptions): string {
  const others = [
    ...(below('/var/lib', home) === null ? [home] : []),
    ...(socket !== undefined && below('/run', dirname(socket)) === null ? [dirname(socket)] : [])
  ]
  const all = [...others, ...paths]
  return [
    isMultiUser
      ? '# One for each deployPath, or for a directory above it. Each deployPath must be there, and belong to the user of its project.'
      : '# One for each deployPath, or for a directory above it. It must be there, and belong to the user.',
    ...(paths.length === 0 ? ['#ReadWritePaths=/srv/www'] : []),
    ...all.map(path => `ReadWritePaths=${word(path)}`)
  ].join('\n')
}

/** The rest of a path below a directory; null: it is elsewhere. */
function below(directory: string, path: string): string | null {
  return path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : null
}

/** `%` begins a specifier everywhere. */
function specifiers(text: string): string {
  return text.replace(/%/g, '%%')
}

/** One word of a list, in quotes where it needs them. systemd.syntax(7) */
function word(text: string): string {
  const plain = specifiers(text)
  return /^[\w./:@%+,=-]+$/.test(plain) ? plain : `"${plain.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n')}"`
}

/** In the arguments, and there only, a `$` begins a variable. */
function commandLine([program = '', ...words]: readonly string[]): string {
  return [word(program), ...words.map(each => word(each).replace(/\$/g, '$$$$'))].join(' ')
}
