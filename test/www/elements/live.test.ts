import t from 'tap'
import { liveAmong, liveBefore } from '../../../www/elements/live.js'

/** Newest first, as lists are: `4f2` is the fourth, failed, and the second that changed the target. */
const items = (text: string) => text.split(' ').map(word => ({
  id: word[0] as string,
  status: word[1] === 'f' ? 'failed' as const : 'success' as const,
  startTime: `2026-01-0${word[0]}T00:00:00.000Z`,
  placed: word[2] === undefined ? null : Number(word[2])
}))

t.test('what is in place', async t => {
  t.equal(liveAmong(items('4f 3f2 2s1'))?.id, '3')
  t.equal(liveAmong(items('3s1 2s2'))?.id, '2', 'the clock was set back')
  t.equal(liveAmong(items('3f 2f')), null)
})

t.test('what was in place before a deployment', async t => {
  const before = (text: string, id: string) => liveBefore(items(text), items(text).find(item => item.id === id) as ReturnType<typeof items>[0])?.id
  t.equal(before('4f3 3f2 2s1', '4'), '3', 'also one that has failed')
  t.equal(before('4f 3f 2s1', '4'), '2', 'what has failed before it changed nothing')
  t.equal(before('4s3 3s2 2s1', '3'), '2')
  t.equal(before('4s 3f 2s', '4'), '2', 'where nobody knows: the last success')
  t.equal(before('4s 3f', '4'), '3')
  t.equal(before('4s 3f', '3'), '4')
  t.equal(before('4s', '4'), undefined)
})
