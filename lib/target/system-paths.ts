/*
 * Places below which files are programs or rights of the whole system: a unit, a job of cron, a key that opens a shell.
 * A user who can deploy there has more than the project, often root. So they are no targets unless the operator of the
 * server says so (`serve --allow-system-paths`); the API cannot. docs/security.md lists them.
 *
 * Below /etc the list is of what is open: a list of what runs code there (cron, pam, logrotate, dhcp, …) is never complete.
 */
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { foldCase, isInside } from '../base/paths.js'

/** Closed, with all that is below them. */
const closedDirectories = [
  '/bin', '/boot', '/etc', '/lib', '/lib32', '/lib64', '/libx32', '/sbin', '/run/systemd', '/run/udev', '/run/user',
  '/usr/bin', '/usr/lib', '/usr/lib32', '/usr/lib64', '/usr/libexec', '/usr/libx32', '/usr/sbin',
  '/usr/share/dbus-1', '/usr/share/polkit-1', '/usr/share/applications',
  '/var/spool', '/var/run/systemd', '/var/run/udev', '/var/run/user', '/var/lib/systemd', '/var/lib/cloud',
  '/var/lib/dpkg', '/var/lib/rpm', '/var/lib/apt', '/var/lib/pacman', '/var/lib/snapd',
  '/var/lib/docker', '/var/lib/containerd', '/var/lib/kubelet',
  '/System', '/Library/LaunchAgents', '/Library/LaunchDaemons', 'c:\\windows'
]

/** Of /etc: sites of web servers and proxies (not their modules, which root loads), and what belongs to /opt. */
const openBelowEtc = new RegExp(
  '^/etc/((nginx|apache2|httpd|caddy|haproxy|lighttpd|traefik)/' +
    '(sites|sites-available|sites-enabled|conf\\.d|conf-available|conf-enabled|snippets|html|dynamic)|opt/[^/]+)(/|$)'
)

/** Closed wherever they are, with all that is below them: keys, and what a user's login or session runs. */
const closedNames = [
  '.ssh', '.gnupg', '.aws', '.kube', '.docker', '.config/systemd', '.config/autostart', '.config/environment.d',
  '.config/fish', '.local/bin', '.local/share/systemd', '.local/share/dbus-1', '.local/share/applications',
  'Library/LaunchAgents'
].map(name => name.split('/'))

const top = fileURLToPath(new URL('../../../', import.meta.url)).slice(0, -1)
/** Of this program: what it runs, and what it runs with. */
const programDirectories = [
  ...['bin', 'dist', 'node_modules'].map(name => join(top, name)),
  dirname(process.execPath),
  ...(basename(dirname(top)) === 'node_modules' ? [dirname(top)] : [])
]

/**
 * Returns why a place (absolute and normalised, its links followed) is one of the system's, as a predicate ("lies in
 * …"); null: it is not.
 */
export function systemPathFault(place: string): string | null {
  const plain = foldCase(place).replace(/^\/private(?=\/(etc|var)(\/|$))/, '')
  const closed = closedDirectories.find(directory => isInside(foldCase(directory), plain))
  if (closed !== undefined && !openBelowEtc.test(plain)) return `lies in ${closed}, where files are part of the system`
  const segments = plain.split(/[\\/]/)
  const name = closedNames.find(name => runsThrough(segments, name))?.join('/')
  if (name !== undefined) return `lies in, or contains, a ${name} directory, where files are keys, or run at the next login`
  const program = programDirectories.find(directory => isInside(foldCase(directory), foldCase(place)) || isInside(foldCase(place), foldCase(directory)))
  if (program !== undefined) return `lies in, or contains, "${program}", from where svc itself runs`
  if (isInside(foldCase(join(homedir(), '.svc')), foldCase(place))) return 'lies in ~/.svc, where svc keeps tokens'
  return isInside(foldCase(place), foldCase(homedir())) ? 'contains the home directory of the user that svc runs as' : null
}

/** Whether `name` stands somewhere in the path, or begins where the path ends: there it may still be created. */
function runsThrough(segments: readonly string[], name: readonly string[]): boolean {
  return segments.some((_, at) => {
    const part = segments.slice(at, at + name.length)
    const isWhole = part.length === name.length || (part.length > 0 && at + part.length === segments.length)
    return isWhole && part.every((segment, index) => segment === foldCase(name[index] as string))
  })
}
