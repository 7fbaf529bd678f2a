import t from 'tap'
import { setTimeout as sleep } from 'node:timers/promises'
import { createDoor } from '../../lib/base/door.js'

t.test('makes a part once, when it is first needed', async t => {
  let made = 0
  const door = createDoor(async () => ({ number: ++made }))
  t.equal(door.opened(), undefined)
  t.equal(door.asked(), undefined)
  t.equal(made, 0)
  const [one, two] = await Promise.all([door(), door()])
  t.equal(one, two)
  t.equal(await door(), one)
  t.equal(await door.asked(), one)
  t.equal(door.opened(), one)
  t.equal(made, 1)
})

t.test('tries again after a failure', async t => {
  let tries = 0
  const door = createDoor(async () => {
    if (++tries === 1) throw new Error('too many open files')
    return 'made'
  })
  await t.rejects(door(), /too many open files/)
  t.equal(door.opened(), undefined)
  t.equal(await door(), 'made')
})

t.test('makes a part that nobody needs a second later, and keeps a failure of that to itself', async t => {
  const door = createDoor(async () => 'made')
  const broken = createDoor(async () => {
    throw new Error('broken')
  })
  while (door.opened() === undefined) await sleep(20)
  await t.rejects(broken(), /broken/, 'who needs it is told')
})
