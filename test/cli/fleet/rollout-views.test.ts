import { PassThrough } from 'node:stream'
import t from 'tap'
import { createRolloutView } from '../../../lib/cli/fleet/rollout-views.js'
import { rolloutDetail, rolloutNode } from '../../support/a-rollout.js'

/** Returns a view on a stream, and what it has written so far. */
function viewOn(terminal: { columns: number; rows: number } | null) {
  const stream = new PassThrough()
  Object.assign(stream, terminal === null ? {} : { isTTY: true, ...terminal })
  const view = createRolloutView({ stderr: stream as never, env: { NO_COLOR: '1' } })
  return { view, written: () => String(stream.read() ?? '') }
}

t.test('elsewhere than on a terminal, a line says what changed', async t => {
  const { view, written } = viewOn(null)
  const node = rolloutNode('web-1')
  view.show(rolloutDetail([node], { state: 'preparing', wave: 0 }))
  view.show(rolloutDetail([node], { state: 'preparing', wave: 0 }))
  view.show(rolloutDetail([node]))
  const failed = rolloutNode('web-1', { phase: 'failed', error: 'No space' })
  view.show(rolloutDetail([failed], { state: 'halted', haltedReason: '1 failed (allowed: 0)' }))
  view.show(rolloutDetail([failed], { state: 'halted', haltedReason: '1 failed (allowed: 0)' }))
  view.end()
  t.strictSame(written().split('\n'), [
    'ro_a: preparing',
    'ro_a: in progress, wave 1 of 1',
    '✗ web-1: No space',
    'ro_a: halted: 1 failed (allowed: 0)',
    ''
  ])
})

t.test('on a terminal, a block is drawn over the one before, and removed at the end', async t => {
  const { view, written } = viewOn({ columns: 30, rows: 24 })
  view.show(rolloutDetail([rolloutNode('web-1')]))
  await new Promise(resolve => setTimeout(resolve, 20))
  const first = written()
  t.match(first, /wave 1\/1 {2}web-1 {2}●/)
  t.notMatch(first, /\x1b\[\d+A/)
  view.show(rolloutDetail([rolloutNode('web-1', { phase: 'good' })]))
  await new Promise(resolve => setTimeout(resolve, 150))
  // The head is wider than the terminal and takes two rows.
  t.match(written(), /^\x1b\[5A\r\x1b\[J[^]*✓/)
  view.end()
  t.equal(written(), '\x1b[5A\r\x1b[J')
})

t.test('a block is not higher than the terminal', async t => {
  const { view, written } = viewOn({ columns: 100, rows: 10 })
  view.show(rolloutDetail(Array.from({ length: 30 }, (_, at) => rolloutNode(`web-${at}`, { wave: at + 1 }))))
  await new Promise(resolve => setTimeout(resolve, 20))
  t.equal(written().split('\n').length, 9)
  view.end()
})
