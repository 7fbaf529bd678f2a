import type { Words } from '../t.js'

/** `pages/deployments.ts` */
export const words: Words = {
  'the deployments': '部署列表',
  'Every project': '所有项目',
  'Which project': '选择项目',
  'Every status': '所有状态',
  'Branch': '分支',
  'Commit': '提交',
  'At least 4 digits of a commit’s id are needed (0–9, a–f)': '至少需要提交编号的 4 位（0–9、a–f）',
  'Which status': '选择状态',
  '{shown} of {all}': '{all}中的 {shown} 次',
  'Loading…': '正在加载…',
  'Load more': '加载更多',
  'Nothing has been deployed yet': '尚无部署',
  'Each push, each zip dropped on a project and each roll-back becomes a line here, with its output.':
    '每次推送、每个拖放到项目的 zip 和每次回滚都会在此成为一行，并附带其输出。',
  'To the projects': '前往项目',
  'None like that': '没有符合条件的部署',
  'No deployment fits what is chosen above.': '没有部署符合上面的筛选条件。',
  'Show all': '显示全部'
}
