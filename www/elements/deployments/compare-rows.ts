import type { DeploymentRow, DeploymentStep } from '../../../lib/model/deployment.js'
import { deploymentWords, spanWords, stepWords } from '../base/words.js'
import { formatBytes } from '../../shared/size.js'
import { numberWords, t } from '../../words/t.js'

/* Compares two deployments as rows of text. Pure. */

/** One property of the two deployments. */
export interface CompareRow {
  name: string
  /** Values of the other deployment and of this one. Empty if there is no value. */
  before: string
  now: string
  /** The two values differ in a way that can matter. */
  isOther: boolean
}

/** Duration of a step counts as different if it changes by at least this share. */
const otherShare = 0.5
const otherMs = 1000

/** Returns the properties of two deployments of a project, different or equal. */
export function compareRows(before: DeploymentRow, now: DeploymentRow): CompareRow[] {
  const row = (name: string, words: (deployment: DeploymentRow) => string): CompareRow => ({
    name,
    before: words(before),
    now: words(now),
    isOther: words(before) !== words(now)
  })
  const took = (deployment: DeploymentRow): number | null =>
    deployment.endTime === null ? null : Date.parse(deployment.endTime) - Date.parse(deployment.startTime)
  const isShown = ({ name, isOptional }: (typeof stepWords)[number]): boolean =>
    isOptional !== true || [...before.steps, ...now.steps].some(step => step.name === name)
  return [
    row(t('Message'), deploymentWords),
    row(t('Archive'), ({ archiveBytes }) => (archiveBytes === null ? '' : formatBytes(archiveBytes))),
    row(t('Files'), ({ fileCount }) => (fileCount === null ? '' : numberWords(fileCount))),
    row(t('Environment'), ({ env }) => env),
    timed(t('Duration'), took(before), took(now)),
    ...stepWords.filter(isShown).map(({ name, words }) =>
      stepRow(
        t(words),
        before.steps.find(each => each.name === name),
        now.steps.find(each => each.name === name)
      )
    )
  ].filter(row => row.before !== '' || row.now !== '')
}

function stepRow(name: string, before: DeploymentStep | undefined, now: DeploymentStep | undefined): CompareRow {
  const row = timed(name, tookMs(before), tookMs(now))
  const words = (step: DeploymentStep | undefined, time: string): string => {
    if (step === undefined) return t('not run')
    if (step.status === 'skipped') return t('none')
    if (step.status !== 'failed') return time
    return step.exitCode === undefined || step.exitCode === null
      ? t('failed')
      : t('exit {code}', { code: step.exitCode })
  }
  const isOther = row.isOther || before?.status !== now?.status
  return { ...row, before: words(before, row.before), now: words(now, row.now), isOther }
}

const tookMs = (step: DeploymentStep | undefined): number | null =>
  step === undefined || step.endedAt === null || step.status === 'skipped'
    ? null
    : Date.parse(step.endedAt) - Date.parse(step.startedAt)

function timed(name: string, before: number | null, now: number | null): CompareRow {
  const words = (ms: number | null): string => (ms === null ? '' : spanWords(ms))
  const differs =
    before !== null &&
    now !== null &&
    Math.abs(now - before) > otherMs &&
    Math.abs(now - before) > otherShare * Math.max(before, now)
  return { name, before: words(before), now: words(now), isOther: differs || (before === null) !== (now === null) }
}

/** How a script changed between two deployments. */
export interface ScriptChange {
  step: 'preDeploy' | 'postDeploy'
  before: string | null
  now: string | null
  isOther: boolean
}

/** Returns the scripts that ran in either deployment. */
export function compareScripts(before: DeploymentRow, now: DeploymentRow): ScriptChange[] {
  return (['preDeploy', 'postDeploy'] as const).flatMap(step => {
    const scriptOf = (deployment: DeploymentRow): string | null =>
      deployment.scripts.find(script => script.step === step)?.script ?? null
    const change = { step, before: scriptOf(before), now: scriptOf(now) }
    return change.before === null && change.now === null ? [] : [{ ...change, isOther: change.before !== change.now }]
  })
}
