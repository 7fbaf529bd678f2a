/*
 * Random histories of projects, each compared with a model after every step: `node histories.js [seconds] [seed]`.
 * Prints TAP, and as a comment how many there were.
 */
import t from 'tap'
import { deployStage } from '../support/deploy-stage.js'
import { runHistories } from '../support/history.js'

const seconds = Number(process.argv[2] ?? 600)
const firstSeed = Number(process.argv[3] ?? 1)

t.setTimeout(0)
t.test(`random histories for ${seconds} seconds`, { timeout: 0 }, async t => {
  const stage = await deployStage(t)
  stage.values.keep_archives = 1000
  const endMs = Date.now() + seconds * 1000
  let count = 0
  function* seeds(): Generator<number> {
    while (Date.now() < endMs) yield firstSeed + count++
  }
  const seen = await runHistories(t, stage, seeds())
  t.ok(count > 0, `${count} histories: ${JSON.stringify(seen)}`)
})
