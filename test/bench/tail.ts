/* The end of a huge file against tail, how soon an appended line arrives, and what 500 followers cost. */
import { execFile } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startServer } from '../support/server.js'
import { openStream } from '../support/sse.js'
import { compare, machine, median, sized } from '../support/bench.js'

// Not below the program itself, where svc takes no target.
const directory = mkdtempSync(join(tmpdir(), 'svc-bench-tail-'))
const ends: Array<() => unknown> = []
const { client, createProject } = await startServer({ testdir: () => directory, teardown: end => void ends.push(end) })
const project = await createProject('bench')
const line = `${'x'.repeat(120)}\n`

async function add(...names: string[]): Promise<string[]> {
  const items = names.map(name => ({ filePath: join(directory, name) }))
  const { body } = await client.post(`/api/projects/${project.id}/log-sources`, { items })
  return body.items.map(({ id }: { id: string }) => `/api/log-sources/${id}`)
}

console.log(machine())
const huge = join(directory, 'huge.log')
writeFileSync(huge, '')
truncateSync(huge, sized(10 * 1024 ** 3, 1024 ** 2))
appendFileSync(huge, `\n${line.repeat(10_000)}`)
const [source] = await add('huge.log')
const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const from = performance.now()
  await work()
  return performance.now() - from
}
await compare({
  name: 'the last 200 lines of 10 GiB',
  unit: 'ms',
  contestants: {
    'svc range': () => timed(() => client.get(`${source}/range`)),
    'svc stream': () =>
      timed(async () => {
        const stream = await openStream(client, `${source}/stream?tailLines=200`)
        await stream.next('snapshot')
        stream.close()
      }),
    tail: () => timed(() => promisify(execFile)('tail', ['-n', '200', huge]))
  },
  target: 'within 10 ms of tail'
})

const names = Array.from({ length: sized(50, 2) }, (_, n) => `${n}.log`)
for (const name of names) writeFileSync(join(directory, name), line.repeat(500))
const sources = await add(...names)
const arrivals: number[] = []
for (let round = 0; round < sized(10, 1); round++) {
  const stream = await openStream(client, `${sources[0]}/stream`)
  await stream.next('snapshot')
  await new Promise(resolve => setTimeout(resolve, 100))
  const from = performance.now()
  appendFileSync(join(directory, '0.log'), line)
  arrivals.push((await stream.next('lines')).atMs - from)
  stream.close()
}
console.log(
  `\nan appended line arrives after ${median(arrivals).toFixed(1)} ms, at most ${Math.max(...arrivals).toFixed(1)} (target: 50)`
)

const before = process.memoryUsage.rss()
const streams = await Promise.all(
  Array.from({ length: sized(500, 4) }, (_, n) => openStream(client, `${sources[n % sources.length]}/stream`))
)
await Promise.all(streams.map(stream => stream.next('snapshot')))
for (let round = 0; round < 5; round++) {
  for (const name of names) appendFileSync(join(directory, name), line)
  await Promise.all(streams.map(stream => stream.next('lines')))
}
const after = process.memoryUsage.rss()
const mib = (bytes: number): number => Math.round(bytes / 1024 / 1024)
console.log(
  `500 followers of 50 files: ${mib(after)} MiB RSS, ${mib(before)} before, their clients included (target: 200)`
)
for (const stream of streams) stream.close()
for (const end of ends.reverse()) await end()
rmSync(directory, { recursive: true })
process.exit()
