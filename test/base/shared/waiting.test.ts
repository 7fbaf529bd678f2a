import t from 'tap'
import { decisionPath, shownStatus, waitingOf } from '../../../lib/base/shared/waiting.js'

const step = (name: string, status: string) => ({ name, status, startedAt: '2030-01-01T10:00:00.000Z' })
const holdUntil = '2030-01-01T11:00:00.000Z'

t.test('a deployment waits from the begin of its step "confirm" to the end of that step', async t => {
  const waits = { for: 'confirmation', since: '2030-01-01T10:00:00.000Z', until: holdUntil }
  t.same(waitingOf({ status: 'running', steps: [step('confirm', 'running')], holdUntil }), waits)
  t.equal(waitingOf({ status: 'running', steps: [step('check', 'running')], holdUntil }), null, 'its checks run')
  t.equal(waitingOf({ status: 'running', steps: [step('confirm', 'success')], holdUntil }), null, 'confirmed')
  t.equal(waitingOf({ status: 'failed', steps: [step('confirm', 'running')], holdUntil }), null, 'ended')
})

t.test('a rollout is decided on its own page', async t => {
  t.equal(decisionPath({ deployId: 'dep_a', rolloutId: null }), 'deployments/dep_a')
  t.equal(decisionPath({ deployId: 'dep_a', rolloutId: 'ro_a' }), 'rollouts/ro_a')
})

t.test('only a success can have failed in the background', async t => {
  t.equal(shownStatus('success', true), 'failed')
  t.equal(shownStatus('success', undefined), 'success')
  t.equal(shownStatus('running', true), 'running', 'a newer deployment is going on')
})
