import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { zipOf } from '../support/zip.js'
import { readDockerfile } from './dockerfile.js'
import { until } from '../support/until.js'

/*
 * Does what the Dockerfile of the bundle says, without Docker: run in namespaces of its own (`unshare --net --mount`),
 * so without any network. The base image is a root with Node, a shell and the few programs the file needs. Then it does
 * what "docker run --read-only" would: process 1 in its own process namespace, as the user, with only the volumes and
 * /tmp to write to. Arguments: the unpacked bundle, and an empty directory. Prints what it saw as JSON.
 */

const [bundle = '', directory = ''] = process.argv.slice(2)
const run = (program: string, ...words: string[]): string => execFileSync(program, words, { encoding: 'utf8' })
const root = join(directory, 'root')
run('ip', 'link', 'set', 'lo', 'up')
run('mount', '--make-rprivate', '/')

/** The replacement of node:20-slim. */
function makeBase(): void {
  const programs = ['sh', 'sha256sum', 'ln', 'mkdir', 'chown', 'chmod', 'env', 'sleep'].map(name =>
    run('which', name).trim()
  )
  const place = (from: string, to: string): void => {
    mkdirSync(dirname(join(root, to)), { recursive: true })
    copyFileSync(realpathSync(from), join(root, to))
    chmodSync(join(root, to), 0o755)
  }
  for (const program of [...programs, process.execPath]) {
    place(
      program,
      program === process.execPath ? '/usr/local/bin/node' : `/usr/bin/${program.split('/').pop() as string}`
    )
    for (const [, library] of run('ldd', realpathSync(program)).matchAll(/(\/\S+) \(/g))
      place(library as string, library as string)
  }
  mkdirSync(join(root, 'bin'))
  place(run('which', 'sh').trim(), '/bin/sh')
  for (const name of ['dev', 'proc', 'tmp', 'etc']) mkdirSync(join(root, name), { recursive: true })
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n')
  run('mount', '--rbind', '/dev', join(root, 'dev'))
}

interface Image {
  user: string
  env: Record<string, string>
  workdir: string
  volumes: string[]
  port: string
  health: string[]
  command: string[]
}

/** Builds the image as `docker build` does. */
function build(): Image {
  const image: Image = {
    user: '0:0',
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
    workdir: '/',
    volumes: [],
    port: '',
    health: [],
    command: []
  }
  const does: Record<string, (text: string) => void> = {
    ARG: () => {},
    FROM: text => {
      if (text !== 'node:20-slim') throw new Error(`the base is ${text}`)
      makeBase()
    },
    COPY: text => {
      const [from = '', to = ''] = text.split(' ')
      mkdirSync(join(root, to), { recursive: true })
      run('cp', '-R', `${join(bundle, from)}/.`, join(root, to))
    },
    RUN: text =>
      void execFileSync('chroot', [root, '/bin/sh', '-c', text], {
        env: image.env,
        stdio: ['ignore', 'ignore', 'inherit']
      }),
    USER: text => void (image.user = text),
    ENV: text => {
      for (const [, key, value] of text.matchAll(/(\w+)=(\S+)/g)) image.env[key as string] = value as string
    },
    VOLUME: text => void image.volumes.push(...(JSON.parse(text) as string[])),
    WORKDIR: text => void (image.workdir = text),
    EXPOSE: text => void (image.port = text),
    STOPSIGNAL: text => {
      if (text !== 'SIGTERM') throw new Error(text)
    },
    HEALTHCHECK: text => void (image.health = JSON.parse(text.slice(text.indexOf('['))) as string[]),
    CMD: text => void (image.command = JSON.parse(text) as string[])
  }
  for (const { name, text } of readDockerfile(readFileSync(join(bundle, 'docs/Dockerfile'), 'utf8'))) {
    const work = does[name]
    if (work === undefined)
      throw new Error(`the Dockerfile has an instruction that is not understood here: ${name} ${text}`)
    work(text)
  }
  return image
}

/** Runs it read-only except for the volumes and /tmp. */
function mountAll({ volumes }: Image): void {
  run('mount', '--rbind', root, root)
  for (const volume of volumes) run('mount', '--bind', join(root, volume), join(root, volume))
  run('mount', '-o', 'remount,ro,bind', root)
  run('mount', '-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', join(root, 'tmp'))
}

const image = build()
mountAll(image)
const inside = (words: string[]): string[] => [
  `--userspec=${image.user}`,
  root,
  '/bin/sh',
  '-c',
  `cd ${image.workdir} && exec "$@"`,
  'sh',
  ...words
]
const health = (): number | null => spawnSync('chroot', inside(image.health), { env: image.env }).status
const before = health()

// Its parent waits outside; the shell that makes /proc becomes the server.
const start = [
  '--pid',
  '--fork',
  '--kill-child',
  'sh',
  '-c',
  `mount -t proc proc ${root}/proc && exec chroot "$@"`,
  'sh',
  ...inside(image.command)
]
const container = spawn('unshare', start, { env: image.env, stdio: ['ignore', 'pipe', 'pipe'] })
const log: string[] = []
for (const stream of [container.stdout, container.stderr])
  createInterface({ input: stream }).on('line', line => log.push(line))
const ended = once(container, 'exit') as Promise<[number | null]>

const states = (): string[] =>
  processesOf().map(pid => /^State:\s+(\w)/m.exec(readFileSync(`${root}/proc/${pid}/status`, 'utf8'))?.[1] ?? '')
const processesOf = (): string[] =>
  run('ls', `${root}/proc`)
    .split('\n')
    .filter(name => /^\d+$/.test(name))

try {
  while (!log.some(line => line.includes('Data directory'))) {
    if (container.exitCode !== null) throw new Error(log.join('\n'))
    await sleep(20)
  }
  const during = health()
  const { adminToken } = JSON.parse(readFileSync(join(root, 'data/config.json'), 'utf8')) as { adminToken: string }
  const url = `http://127.0.0.1:${image.port}`
  const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ name: 'site', deployPath: '/srv/www/site' })
  const { project } = (await (await fetch(`${url}/api/projects`, { method: 'POST', headers, body })).json()) as {
    project: { id: string; token: string }
  }
  const form = new FormData()
  form.set('projectId', project.id)
  // Also a daemon whose parent is gone, and which then ends.
  form.set(
    'postDeploy',
    '(sleep 0.2 >/dev/null 2>&1 &); (: > /srv/www/x) && echo "there: yes"; (: > /opt/svc/x) || echo "elsewhere: no"'
  )
  form.set('file', new Blob([await zipOf({ 'index.html': 'from a container' })]), 'a.zip')
  const pushed = await (
    await fetch(`${url}/api/deploy/upload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${project.token}` },
      body: form
    })
  ).text()
  await sleep(600)
  const zombies = states().filter(state => state === 'Z').length
  const pid = readFileSync(`/proc/${container.pid}/task/${container.pid}/children`, 'utf8').trim()
  process.kill(Number(pid), 'SIGHUP')
  await until(() => log.some(line => line.includes('Reloaded')))
  process.kill(Number(pid), 'SIGTERM')
  const [exitCode] = await ended
  console.log(
    JSON.stringify({
      before,
      during,
      after: health(),
      pushed,
      zombies,
      exitCode,
      log,
      adminToken,
      deployed: readFileSync(join(root, 'srv/www/site/index.html'), 'utf8'),
      isSocketGone: !existsSync(join(root, 'data/svc.sock')),
      uid: run('stat', '-c', '%u', join(root, 'srv/www/site/index.html')).trim()
    })
  )
} finally {
  container.kill('SIGKILL')
  await ended
}
