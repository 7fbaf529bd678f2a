import '../../../support/without-dom.js'
import t from 'tap'
import { liveAmong, liveBefore } from '../../../../www/elements/deployments/svc-deployment-actions.js'

/** Parses deployments, newest first: `4f2` is the fourth, it failed, and it was the second to change the target. */
const items = (text: string) =>
  text.split(' ').map(word => ({
    id: word[0] as string,
    status: word[1] === 'f' ? ('failed' as const) : ('success' as const),
    startTime: `2026-01-0${word[0]}T00:00:00.000Z`,
    placed: word[2] === undefined ? null : Number(word[2])
  }))

t.test('finds the live deployment', async t => {
  t.equal(liveAmong(items('4f 3f2 2s1'))?.id, '3')
  t.equal(liveAmong(items('3s1 2s2'))?.id, '2', 'even if the clock was set back')
  t.equal(liveAmong(items('3f 2f')), null)
})

t.test('finds the deployment that was live before another one', async t => {
  const before = (text: string, id: string) =>
    liveBefore(items(text), items(text).find(item => item.id === id) as ReturnType<typeof items>[0])?.id
  t.equal(before('4f3 3f2 2s1', '4'), '3', 'even if it failed')
  t.equal(before('4f 3f 2s1', '4'), '2', 'a failure that changed no file is skipped')
  t.equal(before('4s3 3s2 2s1', '3'), '2')
  t.equal(before('4s 3f 2s', '4'), '2', 'if unknown, the last success')
  t.equal(before('4s 3f', '4'), '3')
  t.equal(before('4s 3f', '3'), '4')
  t.equal(before('4s', '4'), undefined)
})
