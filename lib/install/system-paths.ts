/*
 * Places that contain programs or permissions of the whole system: a unit, a cron job, a key that opens a shell. A user
 * who can deploy there gains more than the project, often root. So they cannot be targets unless the operator of the
 * server allows it (`serve --allow-system-paths`); the API cannot. docs/security.md lists them.
 *
 * Below /etc the list contains the allowed places: a list of everything that runs code there (cron, pam, logrotate,
 * dhcp, …) is never complete.
 */
import { userHome } from '../base/runtime.js'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { foldCase, isInside } from '../base/files.js'

/** Directories that are closed, with everything below them. */
const closedDirectories = [
  '/bin',
  '/boot',
  '/etc',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/sbin',
  '/run/systemd',
  '/run/udev',
  '/run/user',
  '/usr/bin',
  '/usr/lib',
  '/usr/lib32',
  '/usr/lib64',
  '/usr/libexec',
  '/usr/libx32',
  '/usr/sbin',
  '/usr/share/dbus-1',
  '/usr/share/polkit-1',
  '/usr/share/applications',
  '/var/spool',
  '/var/run/systemd',
  '/var/run/udev',
  '/var/run/user',
  '/var/lib/systemd',
  '/var/lib/cloud',
  '/var/lib/dpkg',
  '/var/lib/rpm',
  '/var/lib/apt',
  '/var/lib/pacman',
  '/var/lib/snapd',
  '/var/lib/docker',
  '/var/lib/containerd',
  '/var/lib/kubelet',
  '/System',
  '/Library/LaunchAgents',
  '/Library/LaunchDaemons',
  'c:\\windows'
]

/**
 * Allowed below /etc: sites of web servers and proxies (not their modules, which root loads), and files of /opt
 * packages.
 */
const openBelowEtc = new RegExp(
  '^/etc/((nginx|apache2|httpd|caddy|haproxy|lighttpd|traefik)/' +
    '(sites|sites-available|sites-enabled|conf\\.d|conf-available|conf-enabled|snippets|html|dynamic)|opt/[^/]+)(/|$)'
)

/**
 * Names that are closed anywhere, with everything below them: keys, and files that run in a user's login or session.
 */
const closedNames = [
  '.ssh',
  '.gnupg',
  '.aws',
  '.kube',
  '.docker',
  '.config/systemd',
  '.config/autostart',
  '.config/environment.d',
  '.config/fish',
  '.local/bin',
  '.local/share/systemd',
  '.local/share/dbus-1',
  '.local/share/applications',
  'Library/LaunchAgents'
].map(name => name.split('/'))

const top = fileURLToPath(new URL('../../../', import.meta.url)).slice(0, -1)
/** The directories of this program and of its runtime. */
const programDirectories = [
  ...['bin', 'dist', 'node_modules'].map(name => join(top, name)),
  dirname(process.execPath),
  ...(basename(dirname(top)) === 'node_modules' ? [dirname(top)] : [])
]

/**
 * Returns why a place (absolute, normalized, links followed) belongs to the system, as a predicate ("is in …"), or null
 * if it does not.
 */
export function systemPathFault(place: string): string | null {
  const plain = foldCase(place).replace(/^\/private(?=\/(etc|var)(\/|$))/, '')
  const closed = closedDirectories.find(directory => isInside(foldCase(directory), plain))
  if (closed !== undefined && !openBelowEtc.test(plain)) return `is in ${closed}, which belongs to the system`
  const segments = plain.split(/[\\/]/)
  const name = closedNames.find(name => runsThrough(segments, name))?.join('/')
  if (name !== undefined) return `is in or contains a ${name} directory, whose files are keys or run at the next login`
  const program = programDirectories.find(
    directory => isInside(foldCase(directory), foldCase(place)) || isInside(foldCase(place), foldCase(directory))
  )
  if (program !== undefined) return `is in or contains "${program}", from which svc itself runs`
  if (isInside(foldCase(join(userHome(), '.svc')), foldCase(place))) return 'is in ~/.svc, where svc keeps tokens'
  return isInside(foldCase(place), foldCase(userHome()))
    ? 'contains the home directory of the user that svc runs as'
    : null
}

/** Whether `name` occurs in the path, or begins where the path ends: there it could still be created. */
function runsThrough(segments: readonly string[], name: readonly string[]): boolean {
  return segments.some((_, at) => {
    const part = segments.slice(at, at + name.length)
    const isWhole = part.length === name.length || (part.length > 0 && at + part.length === segments.length)
    return isWhole && part.every((segment, index) => segment === foldCase(name[index] as string))
  })
}
