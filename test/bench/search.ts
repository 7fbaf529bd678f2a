/*
 * Searching an access log against grep and ripgrep, with the bare reading of it as the floor. The log is in the page
 * cache. SEARCH_MIB=1024 for the size of the issue. What a server does meanwhile: bench/search-server.
 */
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createSearches } from '../../lib/operate/logs/search/search.js'
import { writeAccessLog } from '../support/access-log.js'
import { compare, machine, sized } from '../support/bench.js'

const mib = Number(process.env['SEARCH_MIB'] ?? sized(256, 1))
const directory = join(dirname(fileURLToPath(import.meta.url)), '../../bench-search')
const path = join(directory, 'access.log')
mkdirSync(directory, { recursive: true })
writeAccessLog(path, mib)
const handle = await open(path)
const { size } = await handle.stat()
const contents = { handle, reach: async () => ({ size, isWhole: true }) }
const searches = createSearches()
const never = new AbortController().signal
let peakBytes = 0
const memory = setInterval(() => {
  peakBytes = Math.max(peakBytes, process.memoryUsage.rss())
}, 20)

async function ours(query: { q: string; isRegex: boolean; ignoresCase: boolean }): Promise<number> {
  const from = performance.now()
  let hits = 0
  await searches.run(
    contents,
    { ...query, maxHits: 5000, context: 0, fromOffset: 0, toOffset: undefined, signal: never, caller: 'bench' },
    async ({ event }) => {
      if (event === 'hit') hits++
    }
  )
  expected ??= hits
  if (hits !== expected) throw new Error(`${hits} hits, not ${expected}`)
  return performance.now() - from
}

function rival(program: string, args: string[]) {
  if (spawnSync(program, ['--version']).error) return null
  return async (): Promise<number> => {
    const from = performance.now()
    // Counted through a pipe: grep stops at the first hit when its output is /dev/null.
    const child = spawn(program, [...args, path], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, LC_ALL: 'C.UTF-8' }
    })
    let lines = 0
    for await (const chunk of child.stdout) for (const byte of chunk as Buffer) if (byte === 10) lines++
    if (expected !== undefined && lines !== expected) throw new Error(`${program}: ${lines} lines, not ${expected}`)
    return performance.now() - from
  }
}

/** Uses one thread; a search uses two. */
function justRead(): number {
  const from = performance.now()
  const block = Buffer.allocUnsafeSlow(1024 * 1024)
  for (let at = 0; at < size; ) at += readSync(handle.fd, block, 0, block.length, at)
  return performance.now() - from
}

let expected: number | undefined
console.log(`${machine()}; ${mib} MiB`)
for (const [name, q, isRegex, ignoresCase, flags] of [
  ['literal', 'upstream timed out', false, false, ['-F']],
  ['literal, ignoring case', 'UPSTREAM TIMED OUT', false, true, ['-F', '-i']],
  ['regular expression with a literal', 'upstream \\w+ed out', true, false, ['-E']],
  ['regular expression without one', '" (501|503) [0-9]+ "', true, false, ['-E']],
  ['choice, ignoring case', 'error|timed', true, true, ['-E', '-i']],
  ['regular expression, classes only', '[0-9]{3}ms [A-Z]{4}$', true, false, ['-E']]
] as const) {
  expected = undefined
  await compare({
    name,
    unit: 'ms',
    contestants: {
      svc: () => ours({ q, isRegex, ignoresCase }),
      'reading alone': justRead,
      grep: rival('grep', [...flags, q]),
      ripgrep: rival('rg', [...flags.filter(flag => flag !== '-E'), q])
    },
    goals: [
      { beside: 'grep', atMost: 1 },
      { beside: 'ripgrep', atMost: 2.5 }
    ]
  })
}
clearInterval(memory)
await searches.close()
console.log(`\nhighest RSS of this process ${Math.round(peakBytes / 1024 / 1024)} MiB`)
await handle.close()
rmSync(directory, { recursive: true })
