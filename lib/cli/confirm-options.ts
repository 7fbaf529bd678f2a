import { Refusal } from '../base/errors.js'
import { confirmLimits } from '../model/gate.js'
import type { UploadPermit } from '../model/upload-permit.js'
import { usage } from './args.js'

/** Options of a push that must be confirmed. */
export const confirmOptions = {
  confirm: {
    type: 'text',
    value: 'time',
    help: 'put the earlier files back unless the deployment is confirmed within this time, like 90s or 10m'
  },
  'check-from-here': {
    type: 'text',
    value: 'url',
    help: 'confirm by itself as soon as this URL answers with a 2xx status; needs --confirm'
  }
} as const

/** How a push is confirmed; both are null without --confirm. */
export interface ConfirmRequest {
  seconds: number | null
  /** The URL to check from here; null: somebody else confirms. */
  checkUrl: URL | null
}

const unitSeconds: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3600 }

/** Reads the options. Throws a usage error. */
export function readConfirmOptions(confirm: string | undefined, checkFromHere: string | undefined): ConfirmRequest {
  if (confirm === undefined) {
    if (checkFromHere !== undefined) throw usage('--check-from-here', '--check-from-here needs --confirm')
    return { seconds: null, checkUrl: null }
  }
  const [, amount = '', unit = ''] = /^(\d{1,6})([smh]?)$/.exec(confirm) ?? []
  const seconds = Number(amount) * (unitSeconds[unit] as number)
  const { min, max } = confirmLimits
  if (amount === '' || seconds < min || seconds > max)
    throw usage('--confirm', `--confirm cannot be "${confirm}": it must be a time from ${min}s to ${max / 3600}h`)
  return { seconds, checkUrl: checkFromHere === undefined ? null : readUrl(checkFromHere) }
}

function readUrl(text: string): URL {
  try {
    const url = new URL(text)
    if (url.protocol === 'http:' || url.protocol === 'https:') return url
  } catch {
    // Reported below.
  }
  throw usage('--check-from-here', `--check-from-here cannot be "${text}": it must be an http or https URL`)
}

/**
 * Refuses --confirm if the server is too old for it: an older server ignores the field, and would deploy without
 * waiting for a confirmation.
 */
export function requireConfirmFeature({ seconds }: ConfirmRequest, permit: UploadPermit | null): void {
  if (seconds === null || permit?.features?.includes('confirm') === true) return
  throw new Refusal(
    'invalid',
    'server_too_old',
    'The server is too old for --confirm. Update it, or push without --confirm'
  )
}
