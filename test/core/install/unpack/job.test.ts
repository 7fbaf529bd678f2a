import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { doJob } from '../../../../lib/core/install/unpack/job.js'
import { extractionStage, pathsOf } from '../../../support/extraction.js'
import { makeZip } from '../../../support/make-zip.js'

const check = (): void => {}

t.test('extracts, and recovers what stays open', async t => {
  const directory = t.testdir()
  const stage = extractionStage(directory)
  writeFileSync(join(stage.target, 'f'), 'old')
  stage.put(makeZip([{ name: 'f', data: 'new' }]))
  const paths = pathsOf(directory, 'dep_test')
  const limits = { maxEntries: 10, maxExtractedBytes: 1000 }
  const extraction = {
    target: stage.target,
    deployId: 'dep_test',
    limits,
    umask: 0o022,
    masksModes: false,
    staysOpen: true
  }
  let pauses = 0
  const pause = (): undefined => void pauses++
  t.match(await doJob({ kind: 'extract', extraction, ...paths }, { check, pause }), {
    kind: 'extracted',
    extracted: { fileCount: 1 }
  })
  t.equal(pauses, 1)
  t.equal(readFileSync(join(stage.target, 'f'), 'utf8'), 'new')
  const recovered = await doJob({ kind: 'recover', journalPath: paths.journalPath, placed: 'revert' }, { check })
  t.match(recovered, { kind: 'recovered', recovery: 'reverted', displaced: null })
  t.equal(readFileSync(join(stage.target, 'f'), 'utf8'), 'old')
})

t.test('rejects with what `check` throws', async t => {
  const directory = t.testdir()
  const stage = extractionStage(directory)
  stage.put(makeZip([{ name: 'f', data: 'new' }]))
  const limits = { maxEntries: 10, maxExtractedBytes: 1000 }
  const extraction = { target: stage.target, deployId: 'dep_test', limits, umask: 0o022, masksModes: false }
  const before = stage.state()
  await t.rejects(
    doJob(
      { kind: 'extract', extraction, ...pathsOf(directory, 'dep_test') },
      {
        check() {
          throw new Error('enough')
        }
      }
    ),
    { message: 'enough' }
  )
  t.strictSame(stage.state(), before)
})
