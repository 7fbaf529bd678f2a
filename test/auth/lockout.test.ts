import t from 'tap'
import { createLockout } from '../../lib/auth/lockout.js'
import { setClock } from '../support/clock.js'

const minuteMs = 60_000
const from = (address: string, witnessed = address) => ({ address, witnessed, viaProxy: false, local: false })
const wrong = () => false
const right = () => true

t.test('8 failures in 10 minutes lock an address for 5 minutes', async t => {
  const clock = setClock()
  const lockout = createLockout({ clock })
  for (let i = 1; i < 8; i++) t.equal(await lockout.attempt(from('192.0.2.1'), wrong), 'wrong')
  t.equal(await lockout.attempt(from('192.0.2.1'), wrong), 'locked')
  await t.rejects(lockout.attempt(from('192.0.2.1'), right), {
    kind: 'too_many',
    code: 'locked_out',
    retryAfterSeconds: 300
  })
  t.equal(await lockout.attempt(from('192.0.2.2'), right), 'right', 'others are not')

  clock.advance(4 * minuteMs)
  await t.rejects(lockout.attempt(from('192.0.2.1'), right), { code: 'locked_out', retryAfterSeconds: 60 })
  clock.advance(minuteMs)
  t.equal(await lockout.attempt(from('192.0.2.1'), right), 'right')
})

t.test('failures older than 10 minutes, or before a success, do not count', async t => {
  const clock = setClock()
  const lockout = createLockout({ clock })
  for (let i = 0; i < 7; i++) await lockout.attempt(from('192.0.2.1'), wrong)
  clock.advance(10 * minuteMs)
  t.equal(await lockout.attempt(from('192.0.2.1'), wrong), 'wrong')
  for (let i = 0; i < 6; i++) await lockout.attempt(from('192.0.2.1'), wrong)
  t.equal(await lockout.attempt(from('192.0.2.1'), right), 'right')
  for (let i = 0; i < 7; i++) t.equal(await lockout.attempt(from('192.0.2.1'), wrong), 'wrong')
})

t.test('an invented first entry does not help: the witnessed address is locked after 40', async t => {
  const lockout = createLockout({ clock: setClock() })
  for (let i = 1; i < 40; i++) t.equal(await lockout.attempt(from(`10.0.0.${i}`, '192.0.2.9'), wrong), 'wrong')
  t.equal(await lockout.attempt(from('10.0.0.40', '192.0.2.9'), wrong), 'locked')
  await t.rejects(lockout.attempt(from('10.0.0.41', '192.0.2.9'), right), { code: 'locked_out' })
})

t.test('a success takes back its own attempt only: sharers of an address stay counted', async t => {
  const lockout = createLockout({ clock: setClock() })
  for (let i = 1; i < 40; i++) await lockout.attempt(from(`10.0.0.${i}`, '192.0.2.9'), wrong)
  for (let i = 0; i < 5; i++) t.equal(await lockout.attempt(from('10.0.1.1', '192.0.2.9'), right), 'right')
  t.equal(await lockout.attempt(from('10.0.0.40', '192.0.2.9'), wrong), 'locked')
})

t.test('guesses made at the same time are counted before they are verified', async t => {
  const lockout = createLockout({ clock: setClock() })
  let verified = 0
  const slowly = async () => {
    verified++
    await new Promise(resolve => setTimeout(resolve, 5))
    return false
  }
  const attempts = Array.from({ length: 100 }, () => lockout.attempt(from('192.0.2.1'), slowly).catch(() => 'refused'))
  const outcomes = await Promise.all(attempts)
  t.equal(verified, 8)
  t.equal(outcomes.filter(outcome => outcome === 'refused').length, 92)
})

t.test('200 failures from everybody slow every further attempt', async t => {
  const lockout = createLockout({ clock: setClock(), slowMs: 60 })
  for (let i = 0; i < 200; i++) await lockout.attempt(from(`10.1.${i}.1`), wrong)
  const fromMs = performance.now()
  t.equal(await lockout.attempt(from('10.2.0.1'), right), 'right')
  t.ok(performance.now() - fromMs >= 55, 'it waited')
})
