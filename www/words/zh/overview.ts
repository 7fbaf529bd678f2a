import type { Words } from '../t.js'

/** `pages/overview.ts` */
export const words: Words = {
  'the overview': '概览'
}
