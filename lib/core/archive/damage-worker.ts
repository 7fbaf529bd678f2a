/* A thread that reads all kept archives. deploy/archive-check.ts starts it. */
import { performance } from 'node:perf_hooks'
import { serveThread } from '../../base/workers.js'
import { type DamageReport, type DamageTask, findDamage } from './damage.js'

/** It works a fifth of the time, so that others get the disk and the processor. */
const workMs = 20
const restMs = 80

serveThread<DamageTask, DamageReport>(({ deployments, isPaused }) => {
  let restAtMs = performance.now() + workMs
  return findDamage(deployments, () => {
    if (performance.now() < restAtMs && Atomics.load(isPaused, 0) === 0) return
    Atomics.wait(isPaused, 0, 0, restMs)
    while (Atomics.load(isPaused, 0) === 1) Atomics.wait(isPaused, 0, 1)
    restAtMs = performance.now() + workMs
  })
})
