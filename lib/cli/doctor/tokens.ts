import { countOf, oneLine } from '../../base/text.js'
import type { AccessReport, ReportedToken } from '../../model/access-report.js'
import type { TokenAdvice } from '../../model/access.js'
import { unusedDays } from '../../model/token-advice.js'
import type { Finding } from './finding.js'

const check = 'Named tokens'
const maxNamesShown = 10

/** Returns the findings about named tokens: those that expire soon, are unused, or have an old secret. Pure. */
export function tokenFindings({ tokens, rotateDays }: Pick<AccessReport, 'tokens' | 'rotateDays'>): Finding[] {
  const advised = (wanted: TokenAdvice) => tokens.filter(({ advice }) => advice.includes(wanted))
  const rotate = 'Replace the secret with "svc token rotate <name>", which can keep the old one valid for a day'
  const findings = [
    finding(advised('expires_soon'), ({ daysLeft }) => `expires in ${countOf(daysLeft, 'day')}`, rotate),
    finding(
      advised('unused'),
      () => `was not used for ${unusedDays} days`,
      'Revoke it with "svc token revoke <name>" if nobody needs it'
    ),
    finding(
      advised('rotate'),
      ({ secretDays }) => `has a secret of ${countOf(secretDays, 'day')} (token_rotate_days is ${rotateDays})`,
      rotate
    )
  ].filter(each => each !== null)
  if (findings.length > 0 || tokens.length === 0) return findings
  return [{ check, result: 'pass', detail: `${tokens.length} valid`, advice: null }]
}

function finding(
  tokens: readonly ReportedToken[],
  fact: (token: ReportedToken) => string,
  advice: string
): Finding | null {
  if (tokens.length === 0) return null
  const said = tokens.slice(0, maxNamesShown).map(token => `"${oneLine(token.name)}" ${fact(token)}`)
  const more = tokens.length - said.length
  const detail = said.join(', ') + (more > 0 ? `, and ${more} more` : '')
  return { check, result: 'warning', detail, advice }
}
