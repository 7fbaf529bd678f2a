import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findNginx, startNginx } from '../proxy/nginx.js'
import { startServed, type Served } from '../support/served.js'
import { makeBareRoot } from './bare-root.js'

/*
 * One walk over a machine without any network: run in namespaces of its own (`unshare --net --mount`), it has nothing
 * but loopback. The server comes from its bundle; the client from its own, in a root that holds Node, its libraries and
 * a shell, is read-only but for /tmp, and is used by nobody. What the server knows is backed up while it runs, restored
 * elsewhere, and served from there. Then the same behind nginx, under a prefix. Arguments: where the bundles are
 * unpacked, and an empty directory. Prints what it saw as JSON.
 */

const [server = '', client = '', directory = ''] = process.argv.slice(2)
const run = (program: string, ...words: string[]): string =>
  execFileSync(program, words, { encoding: 'utf8', env: { PATH: process.env['PATH'] } })
run('ip', 'link', 'set', 'lo', 'up')
const prefix = '/tools/svc'

const environmentOf = (home: string) => ({
  PATH: process.env['PATH'] as string,
  SVC_HOME: join(directory, home),
  HOME: directory
})

function serve(home: string, ...words: string[]): Promise<Served> {
  return startServed({
    command: [process.execPath, join(server, 'bin/svc.js'), 'serve', '--port', '0', ...words],
    cwd: directory,
    env: environmentOf(home)
  })
}

/** The commands of the server's own machine. */
function operate(home: string, ...words: string[]): string {
  return execFileSync(process.execPath, [join(server, 'bin/svc.js'), ...words], {
    encoding: 'utf8',
    cwd: directory,
    env: environmentOf(home)
  })
}

type Api = (method: string, path: string, body?: unknown) => Promise<any>

function apiOf(url: string, token: string): Api {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  return async (method, path, body) => {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    return await answer.json()
  }
}

/** Pushes a site twice from the bare root and rolls it back. `url` is the server's address for the client. */
async function deploy({ name, url, token, root }: { name: string; url: string; token: string; root: string }) {
  const api = apiOf(url, token)
  const target = join(directory, `www-${name}`)
  const deployed = (): string => readFileSync(join(target, 'index.html'), 'utf8')
  const { project } = await api('POST', '/api/projects', { name, deployPath: target })
  const site = join(root, 'tmp', name)
  mkdirSync(site)
  chmodSync(site, 0o777)
  const svc = (words: string, secret: string): string =>
    run(
      'chroot',
      '--userspec=65534:65534',
      root,
      '/bin/sh',
      '-c',
      `cd /tmp/${name} && export HOME=/tmp SVC_SERVER_URL=${url} ${secret} && /bin/node /svc/bin/svc.js ${words} 2>&1`
    )
  const push = (text: string): string => {
    writeFileSync(join(site, 'index.html'), text)
    return svc(`push --project ${project.id}`, `SVC_DEPLOY_TOKEN=${project.token}`)
  }
  const pushed = [push('one'), push('two')]
  const second = deployed()
  const [, first] = await api('GET', `/api/logs?projectId=${project.id}`)
  const rolledBack = svc(`rollback ${project.id} --to ${first.id} --yes`, `SVC_TOKEN=${token}`)
  const panel = await (await fetch(`${url}/`, { headers: { accept: 'text/html' } })).text()
  return {
    pushed,
    second,
    rolledBack,
    now: deployed(),
    listed: svc('list --json', `SVC_TOKEN=${token}`),
    version: (await api('GET', '/api/health')).version,
    terminal: await api('GET', '/api/terminal/available'),
    panel: panel.match(/<base href="[^"]*">|<script type="module"/g)
  }
}

/**
 * Backs up a running server, restores it elsewhere, and deploys from an archive that came along; `name`: its newest
 * project.
 */
async function carry({ name, words }: { name: string; words: readonly string[] }) {
  const file = join(directory, `${name}.backup.zip`)
  const elsewhere = `home-of-${name}`
  const backedUp = JSON.parse(operate('home', 'backup', file, '--json'))
  const restored = JSON.parse(operate(elsewhere, 'restore', file, '--json'))
  const there = await serve(elsewhere, ...words)
  bracket.teardown(there.kill)
  const api = apiOf(there.url, there.adminToken)
  const projects = await api('GET', '/api/projects')
  const [, second] = await api('GET', `/api/logs?projectId=${projects[0].id}`)
  const { status } = await api('POST', `/api/deployments/${second.id}/rollback`)
  const now = readFileSync(join(directory, `www-${name}`, 'index.html'), 'utf8')
  const verified = JSON.parse(operate(elsewhere, 'verify', '--json'))
  return {
    backedUp,
    restored,
    projects: projects.map((each: { name: string }) => each.name),
    status,
    now,
    verified,
    ended: await there.stop()
  }
}

const endings: Array<() => unknown> = []
const bracket = { teardown: (work: () => unknown): void => void endings.unshift(work) }
try {
  const root = join(directory, 'root')
  makeBareRoot({
    root,
    programs: { '/bin/node': process.execPath, '/bin/sh': '/bin/sh' },
    directories: { '/svc': client }
  })
  const direct = await serve('home')
  bracket.teardown(direct.kill)
  const seen = {
    direct: await deploy({ name: 'offline', url: direct.url, token: direct.adminToken, root }),
    carried: await carry({ name: 'offline', words: [] }),
    ended: await direct.stop()
  }
  const nginx = findNginx()
  if (nginx === null) console.log(JSON.stringify({ ...seen, proxied: null }))
  else {
    const behind = await serve('home', '--base', prefix)
    bracket.teardown(behind.kill)
    const upstream = new URL(behind.url).origin
    const proxy = await startNginx(bracket, nginx, {
      directory: join(directory, 'nginx'),
      upstream,
      location: `${prefix}/`
    })
    const proxied = await deploy({ name: 'proxied', url: `${proxy}${prefix}`, token: behind.adminToken, root })
    const carriedBehind = await carry({ name: 'proxied', words: ['--base', prefix] })
    console.log(JSON.stringify({ ...seen, proxied, carriedBehind }))
  }
} finally {
  for (const end of endings) await end()
}
