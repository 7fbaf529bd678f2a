import { PassThrough } from 'node:stream'
import t from 'tap'
import { startProgress, type Look } from '../../../lib/cli/terminal/progress.js'
import { widthOf } from '../../../lib/cli/terminal/width.js'

const paint = { green: (text: string) => text, dim: (text: string) => text } as unknown as Look['paint']

function stage(isTTY: boolean, columns?: number) {
  const stream = Object.assign(new PassThrough().setEncoding('utf8'), {
    isTTY,
    ...(columns === undefined ? {} : { columns })
  })
  const said = (): string => (stream.read() as string | null) ?? ''
  const start = (label: string, inWords?: (amount: number) => string) =>
    startProgress(
      stream as unknown as NodeJS.WriteStream,
      { paint, isDrawn: isTTY, lineEveryMs: 20 },
      { label, inWords }
    )
  return { start, said }
}

t.test('without a terminal, a long wait is not silent', async t => {
  const { start, said } = stage(false)
  const progress = start('Uploading')
  progress.update(512, 1024)
  let text = ''
  for (let tries = 0; tries < 200 && !text.includes('512 B of 1.0 KB'); tries++) {
    await new Promise(resolve => setTimeout(resolve, 10))
    text += said()
  }
  progress.end('Uploaded')
  t.match(text + said(), /^Uploading…\n(Uploading… 0\.\ds, 512 B of 1\.0 KB\n)+Uploaded\n$/)
})

t.test('without a terminal, progress prints two lines', async t => {
  const { start, said } = stage(false)
  const progress = start('Packing')
  progress.update(1, 2)
  progress.clear()
  progress.end('Packed')
  t.equal(said(), 'Packing…\nPacked\n')
})

t.test('a bar shows the part that is done', async t => {
  for (const [done, all, percent, full] of [
    [0, 100, 0, 0],
    [50, 100, 50, 12],
    [100, 100, 100, 24],
    [150, 100, 100, 24],
    [0, 0, 100, 24]
  ] as const) {
    const { start, said } = stage(true)
    start('Packing').update(done, all)
    const bar = said()
    t.match(bar, `\r\x1b[KPacking ${'█'.repeat(full)}${'░'.repeat(24 - full)} ${percent}% of `, `${done} of ${all}`)
    t.notMatch(bar, /left|\/s/, 'no rate of a moment')
  }
  const { start, said } = stage(true)
  const progress = start('Packing')
  progress.update(1, 4)
  t.match(said(), '25%')
  progress.update(2, 4)
  t.equal(said(), '', 'it is not drawn again at once')
  progress.end('Packed')
  progress.clear()
  t.equal(said(), '\r\x1b[KPacked\n\r\x1b[K')
})

t.test('a narrow terminal cuts the text, and then the label', async t => {
  for (const columns of [46, 60, 80]) {
    const { start, said } = stage(true, columns)
    start('A label that is rather long for what there is').update(1, 2)
    const line = said().replace('\r\x1b[K', '')
    t.ok(widthOf(line) < columns, `${columns} columns: ${line}`)
  }
})

t.test('a bar can count other things than bytes', async t => {
  const { start, said } = stage(true)
  start('Verifying', files => `${files} files`).update(5, 10)
  t.match(said(), /Verifying █+░+ 50% of 10 files/)
})
