/*
 * What the followers of a deployment's output, and of a log file, cost everybody else, and how late their lines are: a
 * real server, the followers in a process of their own, and requests one after another from this one. SVC_BIN names
 * another svc.js to compare with, for example one built from an older commit; CASE the cases to run.
 */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { machine, sized } from '../support/bench.js'
import { zipOf } from '../support/zip.js'

const roundMs = sized(8000, 300)
/** Pause between two requests, so that this process does not keep the cores busy. */
const pauseMs = 5
/** Output during the connection phase is not counted. */
const settleMs = sized(1500, 200)
const token = 'bench-admin-token-0123456789'
const wanted = process.env['CASE']
const svc = process.env['SVC_BIN'] ?? fileURLToPath(new URL('../../../bin/svc.js', import.meta.url))
const followMany = fileURLToPath(new URL('../support/follow-many.js', import.meta.url))
const stage = mkdtempSync(join(tmpdir(), 'svc-bench-followers-'))

const server = spawn(process.execPath, [svc, 'serve', '--port', '0'], {
  env: { ...process.env, SVC_HOME: join(stage, 'home'), ADMIN_TOKEN: token },
  stdio: ['ignore', 'pipe', 'inherit']
})
process.on('exit', () => server.kill('SIGKILL'))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
let said = ''
while (!/http:\/\/[\w.:]+/.test(said)) said += String((await once(server.stdout, 'data'))[0])
server.stdout.resume()
const url = /http:\/\/[\w.:]+/.exec(said)?.[0] as string
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

/** Prints `lines` lines of `width` characters every `everyMs`, each beginning with the time in milliseconds. */
const printing = (lines: number, everyMs: number, width: number): string =>
  `exec '${process.execPath}' -e 'const rest = " ".padEnd(${width - 13}, "x"); setInterval(() => ` +
  `{ for (let n = 0; n < ${lines}; n++) console.log(Date.now() + rest) }, ${everyMs})'`

const quiet = printing(1, 500, 60)
const busy = printing(20, 10, 100)

interface Case {
  name: string
  script: string
  followers: number
  mode: 'read' | 'ignore'
  goal: string
  /** Whether they follow a log file with one line per second. Default: the output. */
  isLog?: boolean
}

const cases: Case[] = [
  { name: 'nobody follows', script: quiet, followers: 0, mode: 'read', goal: '' },
  { name: 'nobody follows a busy output', script: busy, followers: 0, mode: 'read', goal: '' },
  { name: '200 follow a busy output', script: busy, followers: 200, mode: 'read', goal: 'p99 below 50 ms' },
  {
    name: '200 never read a busy one',
    script: busy,
    followers: 200,
    mode: 'ignore',
    goal: 'as where nobody follows it'
  },
  {
    name: '2000 follow 2 lines a second',
    script: quiet,
    followers: 2000,
    mode: 'read',
    goal: 'p99 below 50 ms, lag p95 below 250 ms'
  },
  {
    name: '500 follow one log file',
    script: quiet,
    followers: 500,
    mode: 'read',
    goal: 'as where nobody follows',
    isLog: true
  }
]

console.log(machine())
console.log('what a request took, and how late a line arrived (ms)\n')
const titles = ['health p50', 'p99', 'projects p50', 'p99', 'lag p50', 'lag p95', 'CPU %', 'RSS MB']
console.log(['', ...titles].map((title, at) => (at === 0 ? title.padEnd(30) : title.padStart(12))).join(''))
try {
  for (const one of cases)
    if (wanted === undefined || one.name.includes(wanted))
      await measure({ ...one, followers: sized(one.followers, Math.min(5, one.followers)) })
} finally {
  server.kill('SIGKILL')
  await once(server, 'close')
  rmSync(stage, { recursive: true, force: true })
}
process.exit()

async function measure({ name, script, followers, mode, goal, isLog = false }: Case): Promise<void> {
  const { project } = await api<{ project: { id: string } }>('POST', '/api/projects', {
    name,
    deployPath: join(stage, name)
  })
  await api('PUT', `/api/projects/${project.id}`, { postDeployScript: script })
  const deployId = await upload(project.id)
  const stream = isLog ? await growingLog(project.id) : `${url}/api/logs/${deployId}/stream?timestamps=1`
  const crowd = followers === 0 ? null : await follow(stream, followers, mode)
  await new Promise(resolve => setTimeout(resolve, settleMs))
  await lagsOf(crowd)
  const cpuBefore = cpuMs()
  const health: number[] = []
  const projects: number[] = []
  const fromMs = performance.now()
  while (performance.now() - fromMs < roundMs) {
    health.push(await timed('/api/health'))
    projects.push(await timed('/api/projects'))
    await new Promise(resolve => setTimeout(resolve, pauseMs))
  }
  const cpu = (100 * (cpuMs() - cpuBefore)) / (performance.now() - fromMs)
  const lags = await lagsOf(crowd)
  const figures = [
    percentile(health, 50),
    percentile(health, 99),
    percentile(projects, 50),
    percentile(projects, 99),
    percentile(lags, 50),
    percentile(lags, 95),
    cpu,
    rssMb()
  ]
  console.log(
    [name.padEnd(30), ...figures.map(figure => (Number.isNaN(figure) ? '–' : figure.toFixed(1)).padStart(12))].join('')
  )
  if (goal !== '') console.log(`  goal: ${goal}`)
  crowd?.disconnect()
  await api('POST', `/api/deployments/${deployId}/cancel`)
}

async function growingLog(projectId: string): Promise<string> {
  const filePath = join(stage, 'app.log')
  writeFileSync(filePath, '')
  setInterval(() => appendFileSync(filePath, `${Date.now()} GET /index.html 200\n`), 1000).unref()
  const { items } = await api<{ items: Array<{ id: string }> }>('POST', `/api/projects/${projectId}/log-sources`, {
    items: [{ filePath }]
  })
  return `${url}/api/log-sources/${items[0]?.id}/stream`
}

/** The reply to the upload is a follower too, so it is closed at once. */
async function upload(projectId: string): Promise<string> {
  const form = new FormData()
  form.set('projectId', projectId)
  form.set('file', new Blob([await zipOf({ 'index.html': 'x' })]), 'archive.zip')
  const deployToken = (await api<{ token: string }>('GET', `/api/projects/${projectId}`)).token
  const leaving = new AbortController()
  const reply = await fetch(`${url}/api/deploy/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${deployToken}` },
    body: form,
    signal: leaving.signal
  })
  leaving.abort()
  return reply.headers.get('x-svc-deploy-id') as string
}

async function follow(stream: string, count: number, mode: string): Promise<ChildProcess> {
  const child = fork(followMany, [stream, token, String(count), mode])
  const [first] = (await Promise.race([once(child, 'message'), once(child, 'exit')])) as [unknown]
  if (first !== 'open') throw new Error('The followers could not connect')
  return child
}

async function lagsOf(crowd: ChildProcess | null): Promise<number[]> {
  if (crowd === null) return []
  crowd.send('lags')
  const [{ lags }] = (await once(crowd, 'message')) as [{ lags: number[] }]
  return lags
}

async function timed(path: string): Promise<number> {
  const fromMs = performance.now()
  await new Promise<void>((resolve, reject) => {
    const asked = request(url + path, { agent, headers: { authorization: `Bearer ${token}` } }, reply => {
      reply.on('data', () => {})
      reply.on('end', resolve)
    })
    asked.on('error', reject)
    asked.end()
  })
  return performance.now() - fromMs
}

async function api<T>(method: string, path: string, body?: unknown): Promise<T> {
  const reply = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`)
  return (await reply.json()) as T
}

function percentile(figures: number[], percent: number): number {
  const sorted = figures.sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? NaN
}

/** Returns the processor time of the server: fields 14 and 15 of proc(5), in hundredths of a second. */
function cpuMs(): number {
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}

function rssMb(): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'latin1'))?.[1]) * 1.024e-3
}
