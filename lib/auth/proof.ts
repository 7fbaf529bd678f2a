/*
 * Some routes ask the user of a browser session to enter the token again if that was too long ago: a browser that was
 * left open must not be enough to change tokens and settings, to open a shell, or to take the data away. A bearer token
 * proves itself with each request.
 */
import { Refusal } from '../base/errors.js'
import type { Clock } from '../base/clock.js'

const minuteMs = 60_000

/** Checks how long ago the user of a session gave its secret. */
export interface Proof {
  /** Returns until when a session counts as proven; null: without an end. */
  until(provenAt: string | null): string | null
  /** Returns whether the secret was given recently enough. `provenAt` is undefined for a bearer token. */
  isRecent(provenAt: string | null | undefined): boolean
  /** `provenAt` is undefined for a bearer token. Refuses: 403 `proof_required`. */
  check(provenAt: string | null | undefined): void
}

/** Creates the check. `minutes` returns the setting `proof_minutes`; 0: nobody is asked. */
export function createProof({ clock, minutes }: { clock: Clock; minutes(): number }): Proof {
  const endMs = (provenAt: string | null): number =>
    provenAt === null ? -Infinity : Date.parse(provenAt) + minutes() * minuteMs
  const isRecent: Proof['isRecent'] = provenAt =>
    provenAt === undefined || minutes() === 0 || clock.now() < endMs(provenAt)
  return {
    isRecent,
    until(provenAt) {
      if (minutes() === 0) return null
      return new Date(Math.max(0, endMs(provenAt))).toISOString()
    },
    check(provenAt) {
      if (isRecent(provenAt)) return
      const sentence = 'Enter your token again: you signed in too long ago for this request'
      throw new Refusal('forbidden', 'proof_required', sentence)
    }
  }
}
