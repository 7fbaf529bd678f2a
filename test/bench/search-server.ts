/*
 * What a search costs everybody else: a real server, requests one after another over a connection that stays open, with
 * no search, with one after another, and with three at once; its memory; and when the first hit of a compressed log is
 * there, beside `zcat | grep`. SEARCH_MIB=1024 for the size of the issue.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { writeAccessLog } from '../support/access-log.js'
import { compare, machine, sized } from '../support/bench.js'

const mib = Number(process.env['SEARCH_MIB'] ?? sized(256, 1))
const roundMs = sized(4000, 200)
/** Pause between two requests, so that this process does not keep the cores busy. */
const pauseMs = 2
/** Time after which idle threads have ended. */
const idleMs = sized(7000, 200)
const token = 'bench-admin-token-0123456789'
const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
const stage = mkdtempSync(join(tmpdir(), 'svc-bench-search-'))
const log = join(stage, 'access.log')
writeAccessLog(log, mib)
await run('gzip', ['-1', '-k', log])

const server = spawn(
  process.execPath,
  [fileURLToPath(new URL('../../../bin/svc.js', import.meta.url)), 'serve', '--port', '0'],
  {
    env: { ...process.env, SVC_HOME: join(stage, 'home'), ADMIN_TOKEN: token },
    stdio: ['ignore', 'pipe', 'inherit']
  }
)
let said = ''
while (!/http:\/\/[\w.:]+/.test(said)) said += String((await once(server.stdout, 'data'))[0])
server.stdout.resume()
const url = /http:\/\/[\w.:]+/.exec(said)?.[0] as string
const { project } = await post<{ project: { id: string } }>('/api/projects', {
  name: 'Bench',
  deployPath: join(stage, 'site')
})
const {
  items: [plain, compressed]
} = await post<{ items: Array<{ id: string }> }>(`/api/projects/${project.id}/log-sources`, {
  items: [{ filePath: log }, { filePath: `${log}.gz` }]
})
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

try {
  console.log(`${machine()}; ${mib} MiB`)
  // An expression that nothing is found of by its letters, so that the threads have the most to do.
  const heavy = `${url}/api/log-sources/${plain?.id}/search?context=0&maxHits=5000&regex=1&q=${encodeURIComponent('" (501|503) [0-9]+ "')}`
  console.log('\nhighest RSS of the server (target of one search: 120 MB)')
  for (const searches of [0, 1, 3]) {
    await new Promise(resolve => setTimeout(resolve, idleMs))
    writeFileSync(`/proc/${server.pid}/clear_refs`, '5')
    await latency(heavy, searches)
    const status = readFileSync(`/proc/${server.pid}/status`, 'latin1')
    console.log(`  ${searches} searches: ${(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) * 1.024e-3).toFixed(0)} MB`)
  }

  await compare({
    name: '99 of 100 requests took at most',
    unit: 'ms',
    contestants: {
      'during a search': () => latency(heavy, 1),
      'during three': () => latency(heavy, 3),
      without: () => latency(heavy, 0)
    },
    target: 'below 20'
  })
  // Once: what was inflated is kept for a minute.
  const search = `${url}/api/log-sources/${compressed?.id}/search?context=0&maxHits=5000&q=upstream%20timed%20out`
  const fromMs = performance.now()
  const response = await fetch(search, { headers })
  const firstMs = (await firstOf(response.body, 'event: hit')) - fromMs
  const ours = performance.now() - fromMs
  const theirs = await run('sh', ['-c', `zcat '${log}.gz' | grep -F 'upstream timed out' | wc -l`])
  console.log(
    `\n.gz: first hit after ${Math.round(firstMs)} ms, all after ${Math.round(ours)} ms; zcat | grep: ${Math.round(theirs)} ms`
  )
} finally {
  agent.destroy()
  server.kill('SIGTERM')
  await once(server, 'exit')
  rmSync(stage, { recursive: true })
}

async function post<T>(path: string, body: unknown): Promise<T> {
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return (await response.json()) as T
}

/** Runs a program and returns its duration. */
async function run(program: string, args: string[]): Promise<number> {
  const fromMs = performance.now()
  await once(spawn(program, args, { stdio: 'ignore' }), 'exit')
  return performance.now() - fromMs
}

/** Returns the 99th percentile of 100 requests while this many searches run. */
async function latency(search: string, searches: number): Promise<number> {
  const untilMs = performance.now() + roundMs
  const others = Array.from({ length: searches }, async () => {
    while (performance.now() < untilMs) await (await fetch(search, { headers })).text()
  })
  const seen: number[] = []
  while (performance.now() < untilMs) {
    const fromMs = performance.now()
    await get(`${url}/api/projects/${project.id}`)
    seen.push(performance.now() - fromMs)
    await new Promise(resolve => setTimeout(resolve, pauseMs))
  }
  await Promise.all(others)
  seen.sort((a, b) => a - b)
  return seen[Math.floor(seen.length * 0.99)] as number
}

async function get(address: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    request(address, { agent, headers }, response => response.on('end', resolve).resume())
      .on('error', reject)
      .end()
  })
}

/** Returns when a text first appeared. Reads the stream to its end. */
async function firstOf(body: ReadableStream<Uint8Array> | null, text: string): Promise<number> {
  let atMs = NaN
  let held = ''
  for await (const chunk of body ?? []) {
    if (!Number.isNaN(atMs)) continue
    held = held.slice(-text.length) + Buffer.from(chunk).toString('latin1')
    if (held.includes(text)) atMs = performance.now()
  }
  return atMs
}
