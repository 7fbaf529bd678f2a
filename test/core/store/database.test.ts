import t from 'tap'
import { createFollowers } from '../../../lib/core/store/database.js'

t.test('reports the written rows of a table once to each follower', async t => {
  const followers = createFollowers(() => false)
  const [one, other, elsewhere] = [followers.follow('a'), followers.follow('a'), followers.follow('b')]
  for (const followed of [one, other, elsewhere])
    t.equal(followed.take(), null, 'anything may have changed before the first call')
  followers.touch('a', 1)
  followers.touch('a', 1)
  followers.touch('a', 2)
  followers.touch('c', 3)
  t.same(one.take(), new Set([1, 2]))
  t.same(one.take(), new Set())
  followers.touch('a', 4)
  t.same(one.take(), new Set([4]))
  t.same(other.take(), new Set([1, 2, 4]))
  t.same(elsewhere.take(), new Set())
  one.stop()
  followers.touch('a', 5)
  t.same(one.take(), new Set())
  t.same(other.take(), new Set([5]), 'the other follower continues')
})

t.test('within a write, and on the first call after it, any row may have changed', async t => {
  let isWriting = false
  const followers = createFollowers(() => isWriting)
  const followed = followers.follow('a')
  followed.take()
  isWriting = true
  followers.touch('a', 1)
  t.equal(followed.take(), null)
  isWriting = false
  t.equal(followed.take(), null)
  t.same(followed.take(), new Set())
})

t.test('reports null for many rows or all rows', async t => {
  const followers = createFollowers(() => false)
  const followed = followers.follow('a')
  followed.take()
  for (let row = 0; row <= 1000; row++) followers.touch('a', row)
  t.equal(followed.take(), null)
  t.same(followed.take(), new Set())
  followers.touch('a', 1)
  followers.touchAll()
  t.equal(followed.take(), null)
  t.same(followed.take(), new Set())
})
