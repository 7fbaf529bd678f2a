import t from 'tap'
import { createOutput } from '../../../www/server/upload.js'

const line = (text: string) => ({ at: '2026-11-21T00:00:00Z', text })

t.test('announces many lines as one change', async t => {
  const output = createOutput()
  let changes = 0
  output.addEventListener('change', () => changes++)
  for (let index = 0; index < 100; index++) output.append(line(String(index)))
  t.equal(changes, 0)
  await Promise.resolve()
  t.equal(changes, 1)
  t.equal(output.lines.length, 100)
})

t.test('beyond the limit, drops and counts lines at the start', async t => {
  const output = createOutput({ maxLines: 100 })
  for (let index = 0; index < 1000; index++) output.append(line(String(index)))
  t.ok(output.lines.length <= 100)
  t.equal(output.droppedLines + output.lines.length, 1000)
  t.equal(output.lines[0]?.text, String(output.droppedLines))
  t.equal(output.lines.at(-1)?.text, '999')
})
