/*
 * Many agents in one process: `node many-agents.js <hub> <directory> <first>` reads enrollment tokens from stdin, one a line, to
 * an empty line. Each agent is the node of the next number, with its own data directory, store, queue, target and
 * connection. Prints `started` when all are, and ends with its stdin.
 */
import { on, once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { locateHome } from '../../lib/base/config/home.js'
import { type RunningAgent, startAgent } from '../../lib/server/agent.js'

/** Number of agents that start at the same time. */
const starting = 8

async function main(hub: string, directory: string, first: number): Promise<void> {
  const lines = createInterface(process.stdin)
  const ended = once(lines, 'close')
  const tokens: string[] = []
  for await (const [line] of on(lines, 'line', { close: ['close'] })) {
    if (line === '') break
    tokens.push(line as string)
  }
  const report = { info: () => undefined, warn: (text: string) => void process.stderr.write(`${text}\n`) }
  const agents: RunningAgent[] = []
  const start = async (enroll: string, at: number): Promise<void> => {
    const cwd = join(directory, `node-${at}`)
    await mkdir(cwd, { recursive: true })
    const home = locateHome({ SVC_HOME: join(cwd, 'home') }, cwd)
    agents.push(
      await startAgent({
        home,
        hubs: [hub],
        enroll,
        name: `node-${at}`,
        environment: {},
        cwd,
        report,
        host: '127.0.0.1'
      })
    )
  }
  const waiting = tokens.map((token, at) => ({ token, at: first + at }))
  await Promise.all(
    Array.from({ length: starting }, async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await start(next.token, next.at)
    })
  )
  process.stdout.write('started\n')
  await ended
  await Promise.all(agents.map(agent => agent.stop({ wait: false })))
}

await main(process.argv[2] ?? '', process.argv[3] ?? '', Number(process.argv[4]))
