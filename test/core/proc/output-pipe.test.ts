import { closeSync, fstatSync, readdirSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import t from 'tap'
import { openPipe } from '../../../lib/core/proc/output-pipe.js'

const names = (): string[] => readdirSync(tmpdir()).filter(name => name.startsWith('svc-pipe-'))

t.test(
  'opens a pipe without a name',
  { skip: process.platform === 'win32' && 'Windows has no such pipes' },
  async t => {
    const before = new Set(names())
    const pipe = await openPipe()
    if (pipe === null) throw new Error('There is no pipe')
    t.ok(fstatSync(pipe.writer).isFIFO())
    t.same(
      names().filter(name => !before.has(name)),
      []
    )
    writeSync(pipe.writer, 'a\n')
    closeSync(pipe.writer)
    let text = ''
    for await (const chunk of pipe.reader) text += String(chunk)
    t.equal(text, 'a\n')
  }
)

t.test('does without where none can be made', async t => {
  const { TMPDIR } = process.env
  process.env['TMPDIR'] = '/no/such/directory'
  t.teardown(() => void (TMPDIR === undefined ? delete process.env['TMPDIR'] : (process.env['TMPDIR'] = TMPDIR)))
  t.equal(await openPipe(), null)
})
