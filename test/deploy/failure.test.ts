import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import { refuseFullDisk, sentenceOf, StepFailure, StopRequest } from '../../lib/deploy/failure.js'
import { deploySays } from '../support/sentences/deploy.js'

const system = (code: string, path?: string): Error => Object.assign(new Error(`${code}: bad`), { code, path })

t.test('describes an error in one sentence with the step and the remedy', async t => {
  const cases: Array<[error: unknown, sentence: string]> = [
    [new StopRequest('cancel', 'as it is'), 'as it is'],
    [new StepFailure('as it is'), 'as it is'],
    [system('ENOSPC'), deploySays.extractionFailed(deploySays.noSpace)],
    [system('EDQUOT', '/srv/a'), deploySays.extractionFailed(deploySays.quotaUsedUp('/srv/a'))],
    [system('EACCES', '/srv'), deploySays.extractionFailed(deploySays.mayNotWrite('/srv'))],
    [system('EROFS'), deploySays.extractionFailed(deploySays.readOnly)],
    [new Error('odd'), deploySays.extractionFailed('odd')]
  ]
  for (const [error, sentence] of cases) t.equal(sentenceOf(error, 'extract'), sentence)
  t.equal(sentenceOf(new Error('odd'), null), deploySays.deploymentFailed('odd'))
})

t.test('turns a full disk into a refusal and keeps other errors', async t => {
  t.match(refuseFullDisk(system('ENOSPC')), { kind: 'unavailable', code: 'disk_full' })
  const other = new Refusal('conflict', 'x', 'y')
  t.equal(refuseFullDisk(other), other)
  t.equal(refuseFullDisk(null), null)
})
