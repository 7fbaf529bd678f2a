/*
 * What a server costs that nobody uses: memory (issue: below 75 MB on Node 20) and CPU (at most 0.1 % of a core), from
 * half a minute after its first answer on, for twenty seconds. Read from /proc, so on Linux only.
 */
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { machine, sized } from '../support/bench.js'
import { startListening } from '../support/listening.js'
import { bareEnvironment, svcPath } from '../support/svc.js'

/** V8 cleans up some seconds after the last work; that does not count as idle. */
const settleMs = sized(30_000, 500)
const windowMs = sized(20_000, 300)

function residentMb(pid: number): number {
  return (Number(/VmRSS:\s*(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024) / 1e6
}

/** Returns the processor time of all threads; schedstat of proc(5) counts nanoseconds, stat only ticks. */
function cpuMs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  return threads.reduce(
    (sum, id) => sum + Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e6,
    0
  )
}

/** Returns how often the process was woken, threads included. */
function wakeUps(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const of = (id: string) =>
    Number(/^voluntary_ctxt_switches:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/task/${id}/status`, 'utf8'))?.[1])
  return threads.reduce((sum, id) => sum + of(id), 0)
}

interface Footprint {
  what: string
  startMb: number
  idleMb: number
  cpuPercent: number
  wakeUpsPerS: number
}

async function measure(what: string, words: string[], path: string): Promise<Footprint> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-bench-idle-'))
  try {
    const server = await startListening(words, { cwd: directory, env: bareEnvironment(directory, {}), path })
    const { pid } = server
    const startMb = residentMb(pid)
    await sleep(settleMs)
    const [fromMs, cpuBefore, wokenBefore] = [performance.now(), cpuMs(pid), wakeUps(pid)]
    await sleep(windowMs)
    const tookMs = performance.now() - fromMs
    const cpuPercent = ((cpuMs(pid) - cpuBefore) / tookMs) * 100
    const wakeUpsPerS = ((wakeUps(pid) - wokenBefore) / tookMs) * 1000
    const idleMb = residentMb(pid)
    await server.stop()
    return { what, startMb, idleMb, cpuPercent, wakeUpsPerS }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

if (process.platform === 'linux') {
  const programs = mkdtempSync(join(tmpdir(), 'svc-bench-idle-programs-'))
  const bare = join(programs, 'bare.mjs')
  writeFileSync(
    bare,
    `import { createServer } from 'node:http'
     const server = createServer((_request, response) => response.end('ok'))
     server.listen(0, '127.0.0.1', () => console.log('http://127.0.0.1:' + server.address().port + '/'))`
  )
  try {
    console.log(machine())
    console.log('\nidle footprint (after 30 s, for 20 s)')
    for (const found of await Promise.all([
      measure('svc serve', [svcPath, 'serve', '--port', '0'], 'api/health'),
      measure('node:http alone', [bare], '')
    ])) {
      const { what, startMb, idleMb, cpuPercent, wakeUpsPerS } = found
      console.log(
        `  ${what.padEnd(16)}  ${idleMb.toFixed(1)} MB (${startMb.toFixed(1)} at its first answer)` +
          `  ${cpuPercent.toFixed(3)} % CPU  ${wakeUpsPerS.toFixed(1)} wake-ups/s`
      )
    }
    console.log('  target: below 75 MB on Node 20, at most 0.1 % of a core')
  } finally {
    rmSync(programs, { recursive: true, force: true })
  }
} else console.log('idle: left out, it reads /proc')
