import { spawn } from 'node:child_process'
import { mkdir, open, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openAdminToken } from '../../access/admin-token.js'
import { pause, systemClock } from '../../base/clock.js'
import { randomIds } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { replaceFile } from '../../base/files.js'
import { bunVersion } from '../../base/runtime.js'
import { tokenOf } from '../../base/text.js'
import { readDotenv } from '../../base/config/files.js'
import { ensureHome, type Home, locateHome, writeConfig } from '../../base/config/home.js'
import { createPm2, findPm2, pm2Command, pm2Environment, type Pm2Process } from '../../operate/pm2.js'
import { serverEnvironment } from '../../core/proc/environment.js'
import { type Ended, runProcess } from '../../core/proc/run.js'
import { type Context, exitCodes } from '../command.js'
import type { Host } from '../terminal/output.js'

const processName = 'svc-server' // §4.13
const maxRestarts = 5 // §8
const minUptime = '10s' // §8
/** Time that pm2 waits for running deployments before it kills the server. The default of pm2 is 1.6 s. */
const stopGraceMs = 30_000
const commandLimitMs = 60_000
const startLimitMs = 20_000
const startPollMs = 200
/** Number of reads of the log for each query of pm2, which costs a process. */
const pollsBetweenLooks = 10
/** Number of restarts after which a starting server is considered failed. */
const hopelessRestarts = 2
const shownLogBytes = 4096
const program = fileURLToPath(new URL('../../../../bin/svc.js', import.meta.url))

/** Runs `svc serve` with these arguments under pm2, replacing an existing instance. Returns the exit code. */
export async function startSupervised(words: readonly string[], context: Context): Promise<number> {
  const { env, cwd, output, host } = context
  const pm2 = await locatePm2(context)
  const home = locateHome(env, cwd)
  await ensureHome(home)
  const { values, problem } = await readDotenv(cwd, 'server')
  if (problem !== null) output.warn(problem)
  const override = tokenOf(values.ADMIN_TOKEN || env['ADMIN_TOKEN'] || '', 'ADMIN_TOKEN') || undefined
  const token = await openAdminToken({ home, ids: randomIds, override })
  const files = await writeEcosystem(home, words, cwd)
  await keepForServer(home, env['ADMIN_TOKEN'])
  if (await isThere(context)) await run(pm2, ['delete', processName], context)
  const logSizes = { out: await sizeOf(files.out), error: await sizeOf(files.error) }
  await run(pm2, ['start', files.ecosystem], context)
  const url = await untilListening(files.out, logSizes.out, context)
  if (url === null) {
    const errors = (await readFrom(files.error, logSizes.error)).slice(-shownLogBytes).trim()
    output.error(`The server did not start under pm2: ${errors === '' ? `see ${files.error}` : errors}`)
    output.note('Use "svc serve --pm2 stop" to remove it from pm2.')
    return exitCodes.failed
  }
  output.print(`svc listens on ${url}, under pm2 as ${processName}`)
  const isShown = host.stdout.isTTY || token.isNew
  const from = values.ADMIN_TOKEN ? '.env.local' : override === undefined ? home.configFile : 'ADMIN_TOKEN'
  output.print(isShown ? `Admin token: ${token.current()}` : `The admin token comes from ${from}`)
  output.print(`Data directory: ${home.directory}`)
  output.note(`Logs: ${dirname(files.out)}. Use "pm2 save" and "pm2 startup" to start the server after a reboot.`)
  return exitCodes.success
}

/** Stops the server under pm2 and removes it from pm2. Succeeds if there is none, and starts no daemon. */
export async function stopSupervised(context: Context): Promise<number> {
  const pm2 = await locatePm2(context)
  if (!(await isThere(context))) {
    context.output.note(`${processName} is not running under pm2.`)
    return exitCodes.success
  }
  await run(pm2, ['delete', processName], context)
  context.output.print(`Stopped ${processName} and removed it from pm2`)
  return exitCodes.success
}

async function locatePm2({ env }: Context): Promise<string> {
  const found = await findPm2(env)
  if (found !== null) return found
  throw new Refusal(
    'unsupported',
    'no_pm2',
    'Cannot find pm2 on PATH or in the directory of npm for programs. Use "npm install -g pm2" to install it'
  )
}

/** Stores the token for the server under pm2. It is not passed as a variable, because pm2 prints and stores those. */
async function keepForServer(home: Home, token: string | undefined): Promise<void> {
  await writeConfig(home, config => {
    if (token) config.supervisedToken = token
    else delete config.supervisedToken
  })
}

interface SupervisionFiles {
  ecosystem: string
  out: string
  error: string
}

/** Writes the configuration file for pm2, which also allows `pm2 start` by hand. */
async function writeEcosystem(home: Home, words: readonly string[], cwd: string): Promise<SupervisionFiles> {
  const directory = join(home.directory, 'pm2')
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const files = {
    ecosystem: join(directory, 'ecosystem.config.cjs'),
    out: join(directory, 'out.log'),
    error: join(directory, 'error.log')
  }
  const app = {
    name: processName,
    script: program,
    args: ['serve', ...words],
    interpreter: process.execPath,
    exec_mode: 'fork',
    cwd,
    max_restarts: maxRestarts,
    min_uptime: minUptime,
    kill_timeout: stopGraceMs,
    out_file: files.out,
    error_file: files.error,
    merge_logs: true,
    // SVC_SUPERVISED keeps the server from printing its token into a log.
    env: { SVC_HOME: home.directory, SVC_SUPERVISED: '1' }
  }
  const text = `// Written by each "svc serve --pm2"; changes are lost.\nmodule.exports = ${JSON.stringify({ apps: [app] }, null, 2)}\n`
  await replaceFile(files.ecosystem, text, 0o600)
  return files
}

async function findUnderPm2({ env }: Context): Promise<Pm2Process | null> {
  const listing = await createPm2({ clock: systemClock, environment: env }).list()
  if (listing.outcome === 'idle') return null
  if (listing.outcome !== 'listed')
    throw new Refusal('unavailable', 'pm2_failed', `Cannot list the processes of pm2: ${listing.message}`)
  return listing.processes.find(({ name }) => name === processName) ?? null
}

async function isThere(context: Context): Promise<boolean> {
  return (await findUnderPm2(context)) !== null
}

/** Runs a pm2 command. If it fails, refuses (`unavailable`) pm2_failed with its output. */
async function run(pm2: string, words: readonly string[], { env, cwd }: Context): Promise<void> {
  const lines: string[] = []
  const ended: Ended = await runProcess({
    command: pm2Command(pm2, words),
    cwd,
    // The variables that configure the server, but no token: pm2 prints and stores the environment.
    env: { ...serverEnvironment(env), ...pm2Environment(env) },
    timeoutMs: commandLimitMs,
    onLine: line => void lines.push(line)
  })
  if (ended.exitCode === 0) return
  const why = ended.error ?? lines.slice(-5).join('\n')
  throw new Refusal(
    'unavailable',
    'pm2_failed',
    `"pm2 ${words.join(' ')}" failed (${ended.signal ?? ended.exitCode ?? ended.reason}): ${why}`
  )
}

/** Returns the address that the server prints, or null if it fails to start or prints none in time. */
async function untilListening(log: string, fromByte: number, context: Context): Promise<string | null> {
  const untilMs = performance.now() + startLimitMs
  for (let turn = 1; performance.now() < untilMs; turn++) {
    await pause(startPollMs)
    const url = /svc listens on ([^\s"]+)/.exec(await readFrom(log, fromByte))?.[1]
    if (url !== undefined) return url
    if (turn % pollsBetweenLooks !== 0) continue
    const found = await findUnderPm2(context)
    if (found === null || found.status === 'errored' || found.restarts >= hopelessRestarts) return null
  }
  return null
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0
  )
}

async function readFrom(path: string, fromByte: number): Promise<string> {
  const file = await open(path).catch(() => null)
  if (file === null) return ''
  try {
    const bytes = Buffer.alloc(64 * 1024)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, fromByte)
    return bytes.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** A JavaScript runtime that can run svc. */
export type Runtime = 'node' | 'bun'
const signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']
const names: Record<Runtime, string> = { node: 'Node.js', bun: 'Bun' }
const cures: Record<Runtime, string> = {
  node: 'Install it from nodejs.org',
  bun: 'Use "npm install -g bun" to install it'
}

export const currentRuntime: Runtime = bunVersion === undefined ? 'node' : 'bun'

/** Runs svc with another runtime on PATH, and returns its exit code. Forwards signals to it. */
export async function runWith(runtime: Runtime, words: readonly string[], host: Host): Promise<number> {
  const child = spawn(runtime, [program, ...words], { stdio: 'inherit', env: { ...host.env } })
  const passOn = signals.map(signal => {
    // A terminal sends Ctrl-C to the whole process group. A second SIGINT would stop running deployments.
    const listener = () => void (signal === 'SIGINT' && host.stdin.isTTY ? undefined : child.kill(signal))
    host.on(signal, listener)
    return { signal, listener }
  })
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', code => resolve(code ?? 1))
    })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
    throw new Refusal(
      'unsupported',
      `no_${runtime}`,
      `Cannot start ${names[runtime]}: it is not on PATH. ${cures[runtime]}`,
      { cause }
    )
  } finally {
    for (const { signal, listener } of passOn) host.off(signal, listener)
  }
}
