/*
 * A second push, after 1 % of the files have changed, or none: the time of the whole command, and the bytes on the wire in
 * both directions, counted by a proxy. Beside `rsync -az --delete` to a daemon, followed by a sync, and beside zip, curl to
 * a receiver and unzip.
 *
 *   node second-push.js [small | large]    `small` uses a few files, to see that it runs; `large` only 100,000 files
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect, createServer as createRelay, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { compare, type Contestant, type Goal, isTiny, machine, median, sized, tell } from '../support/bench.js'
import { freePort } from '../support/free-port.js'
import { findProgram } from '../support/programs.js'
import { createRandom } from '../support/random.js'
import { startServed } from '../support/served.js'
import { svcPath } from '../support/svc.js'

const isSmall = isTiny || process.argv[2] === 'small'
const isLarge = process.argv[2] === 'large'
/** The most that a push of ten changed files among them may take: the command, and the memory of client and server. */
const large = { files: sized(100_000, 30), bytes: 600, changes: 10, seconds: 3, megabytes: 150 }
const shapes = isLarge
  ? []
  : isSmall
    ? [{ files: sized(200, 20), bytes: 2048 }]
    : [
        { files: 200, bytes: 25_000 },
        { files: 10_000, bytes: 4096 },
        { files: 60, bytes: 5 * 1024 * 1024 }
      ]
const rounds = isSmall ? 1 : 5
const [besideRsync, besideZip] = ['rsync -az --delete && sync', 'zip && curl && unzip && sync']

/** The goals of the wall clock. */
function goalsOf({ files }: { files: number }, what: string): Goal[] {
  if (what === 'nothing changed') return [{ beside: besideRsync, atMost: 3 }]
  const zip = files === 200 ? 1.2 : files === 60 ? 0.15 : 0.25
  return [
    { beside: besideRsync, atMost: files === 200 ? 2 : 4 },
    { beside: besideZip, atMost: zip }
  ]
}

const directory = mkdtempSync(join(tmpdir(), 'svc-bench-second-'))
const place = (...names: string[]): string => join(directory, ...names)
const environment = { PATH: process.env['PATH'] ?? '', HOME: directory, ADMIN_TOKEN: 'bench-admin-token' }
const served = await startServed({
  command: [process.execPath, svcPath, 'serve', '--port', '0'],
  cwd: directory,
  env: { ...environment, SVC_HOME: place('home') }
})
let wireBytes = 0
let clientBytes = 0

/** Returns the most memory that a process has had; 0 where the system does not say it. */
function peakOf(pid: number | undefined): number {
  try {
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}

/** Returns the port of a relay that counts what it passes on. */
async function counted(port: number): Promise<Server> {
  const relay = createRelay(socket => {
    const other = connect(port, '127.0.0.1')
    for (const [from, to] of [
      [socket, other],
      [other, socket]
    ] as const) {
      from.on('data', (data: Buffer) => (wireBytes += data.length))
      from.on('error', () => to.destroy())
      from.pipe(to)
    }
  })
  relay.listen(0, '127.0.0.1')
  await once(relay, 'listening')
  return relay
}
const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port

/** Runs a program; other work of this process goes on. */
async function run(
  program: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv = {},
  cwd = directory
): Promise<void> {
  const child = spawn(program, words, { cwd, env: { ...environment, ...env }, stdio: ['ignore', 'ignore', 'pipe'] })
  const watching = setInterval(() => (clientBytes = Math.max(clientBytes, peakOf(child.pid))), 20)
  let said = ''
  child.stderr.on('data', data => (said += String(data)))
  const [code] = (await once(child, 'close')) as [number]
  clearInterval(watching)
  if (code !== 0) throw new Error(`${program} ${words.join(' ')}: ${said}`)
}

interface Shape {
  files: number
  bytes: number
  /** Number of files that change before a push; default: one in a hundred. */
  changes?: number
}

/** A build whose files change, one in a hundred at a time. */
function createBuild(name: string, { files, bytes, changes = Math.max(1, Math.round(files / 100)) }: Shape) {
  const random = createRandom(files)
  const paths = Array.from({ length: files }, (_, at) => place(name, `d${at % 50}`, `f${at}.js`))
  const line = (): string => `${random.below(2 ** 31).toString(36)} ${random.below(1000)} const\n`
  for (const path of paths) {
    mkdirSync(join(path, '..'), { recursive: true })
    let text = ''
    while (text.length < bytes) text += bytes > 1e6 && text.length > 4096 ? text.slice(-4096) + line() : line()
    writeFileSync(path, text.slice(0, bytes))
  }
  return {
    change(): void {
      for (let n = 0; n < changes; n++) appendFileSync(random.oneOf(paths), line())
    }
  }
}

/** Returns what changes the build for the first contestant of each round: all of them send the same. */
function oncePerRound(edit: () => void, contestants: number): () => void {
  let calls = 0
  return () => {
    if (calls++ % contestants === 0) edit()
  }
}

/** Returns a contestant that changes the build first, and measures the seconds and the bytes of `send`. */
function measured(change: () => void, send: () => Promise<void>, bytes: number[]): Contestant {
  return async () => {
    change()
    wireBytes = 0
    const startedAt = performance.now()
    await send()
    bytes.push(wireBytes)
    return (performance.now() - startedAt) / 1000
  }
}

async function svcPush(name: string): Promise<() => Promise<void>> {
  const relay = await counted(Number(new URL(served.url).port))
  const reply = await fetch(`${served.url}/api/projects`, {
    method: 'POST',
    // Laying out 300 MB blocks the loop: a connection that was kept may be closed by then.
    headers: { authorization: `Bearer ${served.adminToken}`, 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ name, deployPath: place(`target-${name}`), policy: { prune: 'managed' } })
  })
  const { project } = (await reply.json()) as { project: { id: string; token: string } }
  const env = {
    SVC_HOME: place('client'),
    SVC_SERVER_URL: `http://127.0.0.1:${portOf(relay)}`,
    SVC_PROJECT_ID: project.id,
    SVC_DEPLOY_TOKEN: project.token
  }
  return () => run(process.execPath, [svcPath, 'push', '--project', project.id, '--out', place(name)], env)
}

async function rsyncPush(name: string, daemons: ChildProcess[]): Promise<(() => Promise<void>) | null> {
  const rsync = findProgram('rsync')
  if (rsync === null) return null
  const port = await freePort()
  mkdirSync(place(`rsync-${name}`))
  writeFileSync(
    place('rsyncd.conf'),
    `use chroot = no\nuid = ${process.getuid?.()}\ngid = ${process.getgid?.()}\n[site]\npath = ${place(`rsync-${name}`)}\nread only = no\n`
  )
  // With a socket as its input it would serve that alone.
  daemons.push(
    spawn(rsync, ['--daemon', '--no-detach', `--port=${port}`, `--config=${place('rsyncd.conf')}`], { stdio: 'ignore' })
  )
  await new Promise(resolve => setTimeout(resolve, 500))
  const relay = await counted(port)
  return async () => {
    await run(rsync, ['-az', '--delete', `${place(name)}/`, `rsync://127.0.0.1:${portOf(relay)}/site/`])
    await run('sync', ['-f', place(`rsync-${name}`)])
  }
}

async function zipPush(name: string): Promise<(() => Promise<void>) | null> {
  const [zip, unzip, curl] = ['zip', 'unzip', 'curl'].map(program => findProgram(program))
  if (!zip || !unzip || !curl) return null
  const received = place(`received-${name}.zip`)
  const server = createServer(async (request, response) => {
    await pipeline(request, createWriteStream(received))
    await run(unzip, ['-qo', received, '-d', place(`zip-${name}`)])
    await run('sync', ['-f', place(`zip-${name}`)])
    response.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const relay = await counted(portOf(server))
  const archive = place(`sent-${name}.zip`)
  return async () => {
    rmSync(archive, { force: true })
    await run(zip, ['-qr', archive, '.'], {}, place(name))
    await run(curl, ['-fsS', '-T', archive, `http://127.0.0.1:${portOf(relay)}/`])
  }
}

/** Measures second pushes of many files beside absolute goals. */
async function measureLarge(): Promise<void> {
  const { files, bytes, changes, seconds, megabytes } = large
  const { change } = createBuild('large', large)
  const push = await svcPush('large')
  await push()
  await new Promise(resolve => setTimeout(resolve, sized(2500, 0)))
  await push()
  clientBytes = 0
  const took: number[] = []
  for (let round = 0; round < rounds; round++) {
    change()
    const startedAt = performance.now()
    await push()
    took.push((performance.now() - startedAt) / 1000)
  }
  const name = `second push of ${files} files of ${bytes} bytes, ${changes} changed`
  console.log(`\n${name}`)
  const inMegabytes = (size: number): number => Math.round(size / 1024 / 1024)
  for (const [what, figure, atMost] of [
    ['seconds', median(took), seconds],
    ['MB of memory of the client', inMegabytes(clientBytes), megabytes],
    ['MB of memory of the server, first push included', inMegabytes(peakOf(served.pid)), megabytes]
  ] as const) {
    console.log(`  ${figure.toPrecision(3)} ${what} (goal: at most ${atMost})`)
    tell(`${name}: ${what}`, figure, { beside: 'no rival', atMost })
  }
}

console.log(machine())
const daemons: ChildProcess[] = []
try {
  if (isTiny || !isSmall) await measureLarge()
  for (const shape of shapes) {
    const name = `${shape.files}`
    const build = createBuild(name, shape)
    const [svc, rsync, zip] = [await svcPush(name), await rsyncPush(name, daemons), await zipPush(name)]
    for (const send of [svc, rsync, zip]) await send?.()
    // What was written in the moment of a push is read once more.
    await new Promise(resolve => setTimeout(resolve, sized(2500, 0)))
    await svc()
    for (const [what, edit] of [
      ['1 % changed', build.change],
      ['nothing changed', () => {}]
    ] as const) {
      const bytes = { svc: [] as number[], rsync: [] as number[], zip: [] as number[] }
      const change = oncePerRound(edit, [svc, rsync, zip].filter(send => send !== null).length)
      await compare({
        name: `second push of ${shape.files} files of ${shape.bytes} bytes, ${what}`,
        unit: 's',
        rounds,
        contestants: {
          'svc push': measured(change, svc, bytes.svc),
          [besideRsync]: rsync && measured(change, rsync, bytes.rsync),
          [besideZip]: zip && measured(change, zip, bytes.zip)
        },
        goals: goalsOf(shape, what)
      })
      const most = (seen: number[]): number => [...seen].sort((a, b) => a - b)[Math.floor(seen.length / 2)] ?? NaN
      const [ours, theirs] = [most(bytes.svc), most(bytes.rsync)]
      const ratio = (ours / theirs).toPrecision(3)
      if (rsync !== null)
        tell(`${shape.files} files of ${shape.bytes} bytes, ${what}: bytes`, ours / theirs, {
          beside: 'rsync -az',
          atMost: 1
        })
      console.log(
        `  bytes on the wire: svc ${ours}, rsync ${theirs}, ratio ${ratio} (goal 1.0); zip ${most(bytes.zip)}`
      )
    }
  }
} finally {
  for (const daemon of daemons) daemon.kill()
  await served.stop()
  rmSync(directory, { recursive: true, force: true })
}
// The relays still listen.
process.exit()
