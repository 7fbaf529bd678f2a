import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'

/*
 * One walk over a machine without any network: run in namespaces of its own (`unshare --net --mount`), it has nothing
 * but loopback. The server comes from its bundle; the client from its own, in a root that holds Node, its libraries and
 * a shell, is read-only but for /tmp, and is used by nobody. Arguments: where the bundles are unpacked, and an empty
 * directory. Prints what it saw as JSON.
 */

const [server = '', client = '', directory = ''] = process.argv.slice(2)
const run = (program: string, ...words: string[]): string =>
  execFileSync(program, words, { encoding: 'utf8', env: { PATH: process.env['PATH'] } })
run('ip', 'link', 'set', 'lo', 'up')

const home = join(directory, 'home')
const child = spawn(process.execPath, [join(server, 'bin/svc.js'), 'serve', '--port', '0'], {
  cwd: directory,
  env: { PATH: process.env['PATH'], SVC_HOME: home, HOME: directory },
  stdio: ['ignore', 'pipe', 'inherit']
})

/** Where it listens, and its token, from what it prints. */
async function announced(): Promise<{ url: string; token: string }> {
  let url = ''
  for await (const line of createInterface({ input: child.stdout })) {
    url = /svc listens on (\S+)\//.exec(line)?.[1] ?? url
    const token = /Admin token: (\S+)/.exec(line)?.[1]
    if (token !== undefined) return { url, token }
  }
  throw new Error('the server ended before it listened')
}

/** A root with Node, its libraries, and /bin/sh. */
function makeRoot(root: string): void {
  const node = realpathSync(process.execPath)
  const shell = realpathSync('/bin/sh')
  const libraries = [node, shell].flatMap(program => [...run('ldd', program).matchAll(/(\/\S+) \(/g)].map(([, path]) => path as string))
  const place = (from: string, to: string): void => {
    mkdirSync(dirname(join(root, to)), { recursive: true })
    copyFileSync(from, join(root, to))
    chmodSync(join(root, to), 0o755)
  }
  place(node, '/bin/node')
  place(shell, '/bin/sh')
  for (const library of new Set(libraries)) place(library, library)
  run('cp', '-R', client, join(root, 'svc'))
  mkdirSync(join(root, 'tmp'))
  run('mount', '--bind', root, root)
  run('mount', '-o', 'remount,ro,bind', root)
  run('mount', '-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', join(root, 'tmp'))
}

try {
  const { url, token } = await announced()
  const api = async (method: string, path: string, body?: unknown): Promise<any> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const answer = await fetch(`${url}${path}`, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
    return await answer.json()
  }
  const target = join(directory, 'www')
  const { project } = await api('POST', '/api/projects', { name: 'offline', deployPath: target })
  const root = join(directory, 'root')
  makeRoot(root)
  const site = join(root, 'tmp/site')
  mkdirSync(site)
  writeFileSync(join(site, 'index.html'), 'one')
  chmodSync(site, 0o777)
  const svc = (words: string, secret: string): string =>
    run('chroot', '--userspec=65534:65534', root, '/bin/sh', '-c',
      `cd /tmp/site && export HOME=/tmp SVC_SERVER_URL=${url} ${secret} && /bin/node /svc/bin/svc.js ${words} 2>&1`)
  const pushed = [svc(`push --project ${project.id}`, `SVC_DEPLOY_TOKEN=${project.token}`)]
  writeFileSync(join(site, 'index.html'), 'two')
  pushed.push(svc(`push --project ${project.id}`, `SVC_DEPLOY_TOKEN=${project.token}`))
  const second = readFileSync(join(target, 'index.html'), 'utf8')
  const [, first] = await api('GET', `/api/logs?projectId=${project.id}`)
  const rolledBack = svc(`rollback ${project.id} --to ${first.id} --yes`, `SVC_TOKEN=${token}`)
  const listed = svc('list --json', `SVC_TOKEN=${token}`)
  const { version } = await api('GET', '/api/health')
  const terminal = await api('GET', '/api/terminal/available')
  const panel = await (await fetch(`${url}/`, { headers: { accept: 'text/html' } })).text()
  console.log(JSON.stringify({
    pushed, second, rolledBack, now: readFileSync(join(target, 'index.html'), 'utf8'), listed, version, terminal,
    isPanel: panel.includes('<script type="module"')
  }))
} finally {
  child.kill('SIGTERM')
  await once(child, 'exit')
}
