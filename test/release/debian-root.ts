import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { startServed } from '../support/served.js'

/*
 * The life of the Debian package on this machine, without touching it: run in namespaces of its own (`unshare --net
 * --mount`), as root. An overlay over the root directory takes all changes, and dpkg runs in it, so it is the real dpkg
 * with the real maintainer scripts. Only systemd is a stand-in, which writes down what it is told. Arguments: the
 * package, and an empty directory. Prints what it saw as JSON.
 */

const [package_ = '', directory = ''] = process.argv.slice(2)
const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8', HOME: '/root' }
const run = (program: string, ...words: string[]): string =>
  execFileSync(program, words, { encoding: 'utf8', env, stdio: 'pipe' })

const root = join(directory, 'root')
const upper = join(directory, 'upper')
const inside = (...words: string[]): string => run('chroot', root, ...words)
const at = (path: string): string => join(root, path)

function makeRoot(): void {
  run('ip', 'link', 'set', 'lo', 'up')
  run('mount', '--make-rprivate', '/')
  // The upper directory must not be on an overlay itself, as it is in a container.
  run('mount', '-t', 'tmpfs', 'tmpfs', directory)
  for (const name of ['root', 'upper', 'work']) mkdirSync(join(directory, name))
  const options = `lowerdir=/,upperdir=${upper},workdir=${join(directory, 'work')}`
  run('mount', '-t', 'overlay', 'overlay', '-o', options, root)
  run('mount', '-t', 'proc', 'proc', at('proc'))
  run('mount', '--rbind', '/dev', at('dev'))
  for (const path of ['run', 'tmp']) run('mount', '-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', at(path))
  mkdirSync(at('run/systemd/system'), { recursive: true })
  // Containers forbid packages to start services.
  rmSync(at('usr/sbin/policy-rc.d'), { force: true })
  rmSync(at('usr/bin/systemctl'), { force: true })
  const standIn = `#!/bin/sh
echo "$*" >>/tmp/told
case "$*" in
*is-active*) test -e /tmp/runs ;;
*start*.service*) : >/tmp/runs ;;
*stop*.service*) rm -f /tmp/runs ;;
*is-enabled*) echo enabled ;;
esac
`
  writeFileSync(at('usr/bin/systemctl'), standIn, { mode: 0o755 })
  if (!existsSync(at('usr/bin/node'))) copyFileSync(process.execPath, at('usr/bin/node'))
}

/** The package depends on nodejs. A machine whose Node came otherwise gets an empty package of this name. */
function provideNode(): void {
  const isInstalled = inside('dpkg-query', '-W', '-f', '${Package} ${Status}\n').includes('nodejs install ok installed')
  if (isInstalled) return
  const control = `Package: nodejs\nVersion: ${process.versions.node}\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: a stand-in\n`
  mkdirSync(at('tmp/nodejs/DEBIAN'), { recursive: true })
  writeFileSync(at('tmp/nodejs/DEBIAN/control'), control)
  inside('dpkg-deb', '-Znone', '--build', '/tmp/nodejs')
  inside('dpkg', '-i', '/tmp/nodejs.deb')
}

/** Writes the same package with a higher version. */
function makeNewer(): void {
  inside('dpkg-deb', '-R', '/tmp/first.deb', '/tmp/tree')
  const control = readFileSync(at('tmp/tree/DEBIAN/control'), 'utf8')
  writeFileSync(at('tmp/tree/DEBIAN/control'), control.replace(/^Version: .*/m, 'Version: 99.0.0-1'))
  inside('dpkg-deb', '--root-owner-group', '-Znone', '--build', '/tmp/tree', '/tmp/second.deb')
}

/** Runs dpkg. Returns what systemd was told to do with the service. */
function dpkg(...words: string[]): string[] {
  rmSync(at('tmp/told'), { force: true })
  inside('dpkg', '--log=/dev/null', '--no-triggers', '--force-unsafe-io', ...words)
  if (!existsSync(at('tmp/told'))) return []
  const told = readFileSync(at('tmp/told'), 'utf8').split('\n')
  return told.flatMap(line => /\b(start|stop|restart)\b.*svc\.service/.exec(line)?.[1] ?? [])
}

/** Starts what the unit starts, as its user. Returns what the server answers. */
async function serve() {
  const unit = readFileSync(at('usr/lib/systemd/system/svc.service'), 'utf8')
  const words = /^ExecStart=(.*)$/m.exec(unit)?.[1]?.split(' ') ?? []
  const server = await startServed({
    command: ['chroot', '--userspec=svc:svc', root, ...words],
    cwd: '/',
    env: { ...env, SVC_HOME: '/var/lib/svc', HOME: '/var/lib/svc' }
  })
  try {
    const health = await (await fetch(`${server.url}/api/health`)).json()
    const page = await (await fetch(server.url)).text()
    const modules = [...page.matchAll(/(?:href|src)="([^"]+\.js)"/g)].map(([, address]) => address as string)
    const missing: string[] = []
    for (const module of modules)
      if ((await fetch(new URL(module, `${server.url}/`))).status !== 200) missing.push(module)
    return { url: server.url, health, modules: modules.length, missing, ended: await server.stop() }
  } finally {
    server.kill()
  }
}

const state = (path: string) => {
  if (!existsSync(at(path))) return null
  const { mode, uid } = statSync(at(path))
  return { mode: (mode & 0o7777).toString(8), owner: inside('id', '-nu', String(uid)).trim() }
}
/** What the package has left behind, under any name that tells it. */
const left = (): string[] =>
  run('find', upper, '-name', '*svc*')
    .split('\n')
    .filter(Boolean)
    .map(path => path.slice(upper.length))

makeRoot()
copyFileSync(package_, at('tmp/first.deb'))
provideNode()
makeNewer()
const installed = {
  told: dpkg('-i', '/tmp/first.deb'),
  version: inside('svc', '--version').trim(),
  home: state('var/lib/svc'),
  user: inside('getent', 'passwd', 'svc').trim(),
  isEnabled: left().some(path => path.endsWith('multi-user.target.wants/svc.service')),
  unit: readFileSync(at('usr/lib/systemd/system/svc.service'), 'utf8'),
  printed: inside('svc', 'systemd'),
  manual: existsSync(at('usr/share/man/man1/svc-push.1.gz')),
  documents: run('ls', at('usr/share/doc/svc')).trim().split('\n'),
  checked: inside('dpkg', '--verify', 'svc').trim()
}
const served = await serve()
const running = dpkg('-i', '/tmp/second.deb')
inside('rm', '/tmp/runs')
const upgraded = {
  running,
  stopped: dpkg('-i', '/tmp/first.deb'),
  config: state('var/lib/svc/config.json')
}
const files = inside('dpkg', '-L', 'svc')
  .split('\n')
  .filter(path => basename(path) !== '' && /svc/.test(path))
mkdirSync(at('usr/lib/svc/node_modules/node-pty/build/Release'), { recursive: true })
writeFileSync(at('usr/lib/svc/node_modules/node-pty/build/Release/pty.node'), 'compiled by the administrator')
const removed = {
  told: dpkg('-r', 'svc'),
  files: files.filter(path => existsSync(at(path))),
  config: state('var/lib/svc/config.json')
}
const again = { told: dpkg('-i', '/tmp/second.deb'), config: state('var/lib/svc/config.json') }
const purged = { told: dpkg('-P', 'svc'), left: left(), user: inside('getent', 'passwd', 'svc').trim() }
console.log(JSON.stringify({ installed, served, upgraded, removed, again, purged }))
