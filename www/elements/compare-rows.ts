import type { DeploymentRow, DeploymentStep } from '../../lib/model/deployment.js'
import { deploymentWords, sizeWords, spanWords, stepWords } from './words.js'
import { numberWords, t } from '../words/t.js'

/* Two deployments beside each other, as rows of words. Pure. */

export interface CompareRow {
  name: string
  /** Of the other one, and of this one; empty: nothing to say. */
  before: string
  now: string
  /** The two are not the same, in a way that may matter. */
  isOther: boolean
}

/** A step that takes this much longer or shorter is another one. */
const otherShare = 0.5
const otherMs = 1000

/** What two deployments of a project have otherwise, and what they have alike. */
export function compareRows(before: DeploymentRow, now: DeploymentRow): CompareRow[] {
  const row = (name: string, words: (deployment: DeploymentRow) => string): CompareRow =>
    ({ name, before: words(before), now: words(now), isOther: words(before) !== words(now) })
  const took = (deployment: DeploymentRow): number | null =>
    deployment.endTime === null ? null : Date.parse(deployment.endTime) - Date.parse(deployment.startTime)
  return [
    row(t('Message'), deploymentWords),
    row(t('Archive'), ({ archiveBytes }) => (archiveBytes === null ? '' : sizeWords(archiveBytes))),
    row(t('Files'), ({ fileCount }) => (fileCount === null ? '' : numberWords(fileCount))),
    row(t('Environment'), ({ env }) => env),
    timed(t('Duration'), took(before), took(now)),
    ...stepWords.map(({ name, words }) => stepRow(t(words), before.steps.find(each => each.name === name), now.steps.find(each => each.name === name)))
  ].filter(row => row.before !== '' || row.now !== '')
}

function stepRow(name: string, before: DeploymentStep | undefined, now: DeploymentStep | undefined): CompareRow {
  const row = timed(name, tookMs(before), tookMs(now))
  const words = (step: DeploymentStep | undefined, time: string): string => {
    if (step === undefined) return t('not run')
    if (step.status === 'skipped') return t('none')
    if (step.status !== 'failed') return time
    return step.exitCode === undefined || step.exitCode === null ? t('failed') : t('exit {code}', { code: step.exitCode })
  }
  const isOther = row.isOther || before?.status !== now?.status
  return { ...row, before: words(before, row.before), now: words(now, row.now), isOther }
}

const tookMs = (step: DeploymentStep | undefined): number | null =>
  step === undefined || step.endedAt === null || step.status === 'skipped' ? null : Date.parse(step.endedAt) - Date.parse(step.startedAt)

function timed(name: string, before: number | null, now: number | null): CompareRow {
  const words = (ms: number | null): string => (ms === null ? '' : spanWords(ms))
  const differs = before !== null && now !== null && Math.abs(now - before) > otherMs &&
    Math.abs(now - before) > otherShare * Math.max(before, now)
  return { name, before: words(before), now: words(now), isOther: differs || (before === null) !== (now === null) }
}

/** What became of a script between two deployments. */
export interface ScriptChange {
  step: 'preDeploy' | 'postDeploy'
  before: string | null
  now: string | null
  isOther: boolean
}

/** The scripts that ran in either. */
export function compareScripts(before: DeploymentRow, now: DeploymentRow): ScriptChange[] {
  return (['preDeploy', 'postDeploy'] as const).flatMap(step => {
    const scriptOf = (deployment: DeploymentRow): string | null =>
      deployment.scripts.find(script => script.step === step)?.script ?? null
    const change = { step, before: scriptOf(before), now: scriptOf(now) }
    return change.before === null && change.now === null ? [] : [{ ...change, isOther: change.before !== change.now }]
  })
}
