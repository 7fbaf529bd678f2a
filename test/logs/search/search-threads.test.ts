import { EventEmitter, once } from 'node:events'
import { openSync, closeSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createSearchThreads, type Found } from '../../../lib/logs/search/search-threads.js'
import { compilePattern } from '../../../lib/logs/search/pattern.js'

t.test('finds the hits and can be used for the next search', async t => {
  const path = join(t.testdir({}), 'app.log')
  writeFileSync(path, 'one\ntwo needle\nthree\nneedle four\n')
  const fd = openSync(path, 'r')
  const threads = createSearchThreads()
  t.teardown(async () => {
    await threads.close()
    closeSync(fd)
  })
  const size = statSync(path).size
  for (const [text, expected] of [
    ['needle', [4, 21]],
    ['three', [15]],
    ['nowhere', []]
  ] as const) {
    const events = new EventEmitter()
    const hits: number[] = []
    const pattern = compilePattern({ q: text, isRegex: false, ignoresCase: false })
    const plan = { fd, pattern, context: 0, maxHits: 100, isNewestFirst: false, level: undefined }
    const thread = threads.take(plan, {
      found(found: Found) {
        hits.push(...found.hits.map(({ offset }) => offset))
        thread.sent(found)
        if (found.isEnd) events.emit('end')
      },
      error: error => events.emit('error', error)
    })
    thread.search({ index: 0, from: 0, to: size, size })
    await once(events, 'end')
    t.same(hits, expected, text)
    t.equal(thread.runs, 0)
    t.ok(thread.signs > 0, 'it has reported progress')
    await thread.release()
  }
})
