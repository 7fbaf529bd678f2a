/*
 * A rollout of a tree of 20 files to many nodes on this machine, in four waves, against what people do without a fleet:
 * rsync in a shell loop, as Capistrano copies to one directory after the other. `node fleet.js [nodes]`, 50 by default; the
 * goals are for 500: 60 s, hub below 250 MB, idle below half a core.
 *
 * The agents are real: each has its own data directory, store, queue, target and connection to the hub. They share a few
 * processes, since 500 processes of Node do not fit here; so the code is compiled once a process, which helps, and they
 * share the processors with the hub, which does not. The hub has a process of its own. rsync copies local files and checks
 * nothing: no digest, no sync to the disk, no way back, no record.
 */
import { spawn, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { ListedNode } from '../../lib/model/node.js'
import type { RolloutDetail } from '../../lib/model/rollout.js'
import { machine, sized } from '../support/bench.js'
import { processorMs, residentMb } from '../support/process-figures.js'
import { startServeProcess, type ServeProcess } from '../support/serve-process.js'

const count = Number(process.argv[2] ?? sized(50, 2))
const processes = Math.min(4, count)
const idleMs = sized(20_000, 300)
const policy = { canary: Math.ceil(count / 4), then: '25%', maxFailures: 0, maxUnreachable: '0', onFailure: 'halt' }

const directory = mkdtempSync(join(tmpdir(), 'svc-bench-fleet-'))
const endings: Array<() => unknown> = []

/** A tree of 20 files; each version differs in all of them. */
function tree(version: number): Record<string, string> {
  const content = (at: number): string => `${version} ${at}\n`.repeat(200 * (1 + at))
  return Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`part-${at % 4}/file-${at}.txt`, content(at)]))
}

function seconds(sinceMs: number): string {
  return ((performance.now() - sinceMs) / 1000).toFixed(1)
}

/** Starts processes with agents, and waits until the hub sees all of them. Returns their process ids. */
async function startAgents(hub: ServeProcess): Promise<number[]> {
  const program = fileURLToPath(new URL('../support/many-agents.js', import.meta.url))
  const share = Math.ceil(count / processes)
  const pids: number[] = []
  const starting: Promise<unknown>[] = []
  for (let first = 0; first < count; first += share) {
    const child = spawn(process.execPath, [program, hub.url, join(directory, 'nodes'), String(first)], {
      stdio: ['pipe', 'pipe', 'inherit']
    })
    pids.push(child.pid as number)
    const ended = once(child, 'exit')
    endings.push(() => (child.kill('SIGKILL'), ended))
    for (let at = first; at < Math.min(count, first + share); at++) {
      const { token } = await hub.api<{ token: string }>('POST', '/api/enrollments', {})
      child.stdin.write(`${token}\n`)
    }
    child.stdin.write('\n')
    starting.push(
      Promise.race([once(child.stdout, 'data'), ended.then(() => Promise.reject(new Error('agents ended')))])
    )
  }
  await Promise.all(starting)
  for (;;) {
    const { nodes } = await hub.api<{ nodes: ListedNode[] }>('GET', '/api/nodes')
    if (nodes.filter(({ isConnected }) => isConnected).length === count) return pids
    await sleep(100)
  }
}

/** Rolls one version out; returns the time and the times of its waves. */
async function rollOut(hub: ServeProcess, project: Parameters<ServeProcess['upload']>[0], version: number) {
  const startedMs = performance.now()
  const { finished, deployId } = await hub.upload(project, tree(version), { rollout: JSON.stringify(policy) })
  let highestMb = residentMb(hub.pid)
  const watch = setInterval(() => (highestMb = Math.max(highestMb, residentMb(hub.pid))), 200)
  const lines = await finished
  clearInterval(watch)
  const tookMs = performance.now() - startedMs
  const { rollouts } = await hub.api<{ rollouts: RolloutDetail[] }>('GET', `/api/rollouts?deployId=${deployId}`)
  const [rollout] = rollouts
  if (rollout?.state !== 'done' || rollout.counts.good !== count)
    throw new Error(`The rollout ended ${rollout?.state}: ${JSON.stringify([rollout, lines.at(-1)])}`)
  return { tookMs, highestMb, waves: rollout.waves }
}

/** What a shell script does: one rsync after the other. */
function rsyncLoop(version: number): number {
  const source = join(directory, 'source')
  rmSync(source, { recursive: true, force: true })
  for (const [path, content] of Object.entries(tree(version))) {
    mkdirSync(join(source, path, '..'), { recursive: true })
    writeFileSync(join(source, path), content)
  }
  mkdirSync(join(directory, 'copies'), { recursive: true })
  const script = `for at in $(seq ${count}); do rsync -a --delete "$1/" "$2/node-$at/"; done`
  const startedMs = performance.now()
  execFileSync('sh', ['-ec', script, 'sh', source, join(directory, 'copies')])
  return performance.now() - startedMs
}

function checkTargets(version: number): void {
  const wanted = tree(version)
  for (let at = 0; at < count; at++)
    for (const [path, content] of Object.entries(wanted))
      if (readFileSync(join(directory, 'targets', `node-${at}`, path), 'utf8') !== content)
        throw new Error(`node-${at} has another ${path}`)
}

async function main(): Promise<void> {
  console.log(machine())
  console.log(`\na rollout to ${count} nodes in four waves; ${processes} processes with agents, one with the hub`)
  const hub = await startServeProcess({ teardown: end => void endings.push(end as () => unknown) }, directory)
  const startMb = residentMb(hub.pid)
  const beginMs = performance.now()
  const pids = await startAgents(hub)
  console.log(`  ${count} agents enrolled, started and connected: ${seconds(beginMs)} s`)
  const project = await hub.createProject({ name: 'shop', deployPath: join(directory, 'targets', 'hub') })
  const add = Array.from({ length: count }, (_, at) => ({
    node: `node-${at}`,
    deployPath: join(directory, 'targets', `node-${at}`)
  }))
  await hub.api('PATCH', `/api/projects/${project.id}/placements`, { add })

  const [fromMs, before] = [performance.now(), processorMs(hub.pid)]
  await sleep(idleMs)
  const idle = ((processorMs(hub.pid) - before) / (performance.now() - fromMs)) * 100
  console.log(
    `  hub with ${count} connected: ${residentMb(hub.pid).toFixed(0)} MB (${startMb.toFixed(0)} before), ${idle.toFixed(2)} % of a core idle`
  )

  for (const [version, what] of [
    [1, 'first, empty targets'],
    [2, 'second, all files change']
  ] as const) {
    const cpu = [hub.pid, ...pids].map(processorMs)
    const { tookMs, highestMb, waves } = await rollOut(hub, project, version)
    const used = [hub.pid, ...pids].map((pid, at) => (processorMs(pid) - (cpu[at] as number)) / 1000)
    const [ofHub = 0, ...ofAgents] = used
    checkTargets(version)
    const agentsS = ofAgents.reduce((sum, each) => sum + each, 0)
    const rsyncMs = rsyncLoop(version)
    console.log(`  ${what}: ${(tookMs / 1000).toFixed(1)} s in ${waves} waves, hub at most ${highestMb.toFixed(0)} MB`)
    console.log(
      `    processor time: hub ${ofHub.toFixed(1)} s, agents ${agentsS.toFixed(1)} s (${((agentsS / count) * 1000).toFixed(0)} ms a node)`
    )
    console.log(
      `    rsync in a shell loop: ${(rsyncMs / 1000).toFixed(1)} s; ours ÷ this: ${(tookMs / rsyncMs).toFixed(2)}`
    )
  }
  console.log('  goals for 500 nodes: 60 s, below 250 MB, below 50 % of a core idle')
}

if (process.platform === 'linux') {
  try {
    await main()
  } finally {
    for (const end of endings.reverse()) await end()
    rmSync(directory, { recursive: true, force: true })
  }
} else console.log('fleet: left out, it reads /proc')
