import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { systemClock } from '../../lib/base/clock.js'
import { createDeny } from '../../lib/logs/read/deny.js'
import { createInflatedFiles } from '../../lib/logs/read/inflated.js'
import { createOpenLog } from '../../lib/logs/read/open.js'
import { createFileWatcher } from '../../lib/logs/tail/watch.js'
import { createLogViewer } from '../../lib/logs/viewer.js'
import type { LogSource } from '../../lib/model/log-source.js'

const signal = new AbortController().signal

function stage(t: Test, bytes: string | Buffer) {
  const directory = t.testdir({})
  const filePath = join(directory, 'app.log')
  writeFileSync(filePath, bytes)
  const searches = { run: async () => {}, close: async () => {} }
  const openLog = createOpenLog({ deny: createDeny([]), secrets: [] })
  const inflated = createInflatedFiles({ tmp: directory })
  const needs = { openLog, inflated, watcher: createFileWatcher(), searches: searches as never, clock: systemClock }
  const viewer = createLogViewer(needs)
  t.teardown(() => viewer.close())
  return { viewer, source: { id: 'log_a', label: 'app', kind: 'plain', filePath } as LogSource }
}

const text = Array.from({ length: 100 }, (_, index) => `line ${index}\n`).join('')

for (const [what, bytes] of [
  ['a plain file', text],
  ['a compressed file', gzipSync(text)]
] as const) {
  t.test(`describes ${what}, and reads it in parts and as a whole`, async t => {
    const { viewer, source } = stage(t, bytes)
    t.match(await viewer.meta(source, signal), { id: 'log_a', kind: 'plain', size: text.length })
    const end = await viewer.range(source, { direction: 'tail', sizeBytes: 20, signal } as never)
    t.match(end, { lines: ['line 98', 'line 99'], endOffset: text.length, truncatedHead: true })
    const begin = await viewer.range(source, { direction: 'forward', sizeBytes: 20, signal } as never)
    t.match(begin, { lines: ['line 0', 'line 1'], startOffset: 0, truncatedTail: true })
    let whole = ''
    for await (const piece of viewer.read(source, signal)) whole += String(piece)
    t.equal(whole, text)
  })
}

t.test('refuses a missing file', async t => {
  const { viewer, source } = stage(t, text)
  await viewer.check(source)
  await t.rejects(viewer.check({ ...source, filePath: `${source.filePath}.none` }), { name: 'Refusal' })
})
